"""Simulated teams against Mesa, NDlib and plain NumPy: nanoseconds of CPU time per agent and round.

    python benchmarks/agents.py [--json]

Mesa and NDlib are in the extra ``bench``; a missing one is left out. Every peer runs the same model (a small
check compares the shares of correct teams) in the way its users write it: agents with two methods in Mesa, an
``iteration`` over a networkx graph in NDlib, whole-array operations over many teams in NumPy.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
import time
from collections.abc import Callable

import numpy as np

from abilene.rates import Rates
from abilene.theory.agents import simulate

N, T = 100, 50
# Rates near each graph's boundary, so that comparing the shares of correct teams says something.
RATES = {None: Rates(c=0.3, a=0.5, rho=1.0, r=0.8), 3: Rates(c=0.6, a=0.5, rho=1.0, r=0.8)}
START = 46
Peer = Callable[[int, int | None, int], float]


def decide(z: int, k: int, q: int, rates: Rates, random: Callable[[], float]) -> tuple[int, int]:
    """One agent's statement and next belief, as plain Python."""
    majority = None if 2 * k == q else int(2 * k > q)
    if majority is not None and majority != z and random() < rates.c:
        return majority, majority if random() < rates.a else z
    dissent = (q - k) / q if z else k / q
    if random() < rates.rho * dissent:
        return z, int(random() < rates.r)
    return z, z


def with_mesa(n: int, q: int | None, teams: int) -> float:
    import mesa

    class Member(mesa.Agent):  # type: ignore[misc]
        def __init__(self, model: mesa.Model, belief: int) -> None:
            super().__init__(model)
            self.belief = self.statement = self.new_belief = self.new_statement = belief

        def decide(self) -> None:
            everyone = self.model.members
            if q is None:
                k, size = sum(x.statement for x in everyone) - self.statement, n - 1
            else:
                others = [x for x in self.model.random.sample(everyone, q + 1) if x is not self][:q]
                k, size = sum(x.statement for x in others), q
            self.new_statement, self.new_belief = decide(
                self.belief, k, size, RATES[q], self.model.random.random
            )

        def advance(self) -> None:
            self.statement, self.belief = self.new_statement, self.new_belief

    class Team(mesa.Model):  # type: ignore[misc]
        def __init__(self, seed: int) -> None:
            super().__init__(seed=seed)
            self.members = [Member(self, int(i < START)) for i in range(n)]

        def step(self) -> None:
            self.agents.do("decide")
            self.agents.do("advance")

    correct = 0
    for i in range(teams):
        team = Team(i)
        for _ in range(T):
            team.step()
        correct += 2 * sum(x.statement for x in team.members) > n
    return correct / teams


def with_ndlib(n: int, q: int | None, teams: int) -> float:
    import networkx as nx
    from ndlib.models.DiffusionModel import DiffusionModel

    class Withholding(DiffusionModel):  # type: ignore[misc]
        def __init__(self, graph: nx.Graph, seed: int) -> None:
            super().__init__(graph, seed)
            self.available_statuses = {"00": 0, "01": 1, "10": 2, "11": 3}  # statement, belief
            self.parameters = {"model": {}, "nodes": {}, "edges": {}}
            self.name = "Withholding"
            self.status = {node: 3 if node < START else 0 for node in graph.nodes}
            self.random = random.Random(seed)

        def iteration(self, node_status: bool = True) -> dict[str, object]:
            actual = dict(self.status)
            for node in self.graph.nodes:
                seen = self.graph.neighbors(node)
                if q is not None:
                    seen = self.random.sample(list(seen), q)
                k = sum(self.status[j] >> 1 for j in seen)
                y, z = decide(self.status[node] & 1, k, q or n - 1, RATES[q], self.random.random)
                actual[node] = 2 * y + z
            delta, count, change = self.status_delta(actual)
            self.status = actual
            self.actual_iteration += 1
            return {"iteration": self.actual_iteration, "status": delta, "node_count": count, "d": change}

    correct = 0
    for i in range(teams):
        model = Withholding(nx.complete_graph(n), i)
        for _ in range(T):
            model.iteration()
        correct += 2 * sum(s >> 1 for s in model.status.values()) > n
    return correct / teams


def with_numpy(n: int, q: int | None, teams: int) -> float:
    rng = np.random.default_rng(0)
    z = np.zeros((teams, n), dtype=np.int8)
    z[:, :START] = 1
    y = z.copy()
    rows, me = np.arange(teams)[:, None], np.arange(n)
    for _ in range(T):
        if q is None:
            k, size = y.sum(axis=1, dtype=np.int16)[:, None] - y, n - 1
        else:
            # Distinct others: how many seats further on each sits, drawn again where two coincide.
            further = np.empty((q, teams, n), dtype=np.int16)
            same = np.ones((teams, n), dtype=bool)
            while same.any():
                further[:, same] = rng.integers(1, n, (q, int(same.sum())), dtype=np.int16)
                same[:] = False
                for a, b in itertools.combinations(range(q), 2):
                    same |= further[a] == further[b]
            k, size = sum(y.take(rows * n + (me + x) % n) for x in further), q
        majority = np.sign(2 * k - size)
        opposed = majority == 1 - 2 * z
        withholds = opposed & (rng.random((teams, n)) < RATES[q].c)
        internalizes = withholds & (rng.random((teams, n)) < RATES[q].a)
        dissent = np.where(z == 1, size - k, k) / size
        again = ~withholds & (rng.random((teams, n)) < RATES[q].rho * dissent)
        lands = rng.random((teams, n)) < RATES[q].r
        y = np.where(withholds, 1 - z, z).astype(np.int8)
        z = np.where(internalizes, 1 - z, np.where(again, lands, z)).astype(np.int8)
    return float((2 * y.sum(axis=1, dtype=np.int32) > n).mean())


def with_abilene(n: int, q: int | None, teams: int) -> float:
    # Noise so small that it never strikes keeps agreeing teams from being skipped: every update is executed.
    return simulate(
        n, T, RATES[q], "complete" if q is None else q, start=START, replicates=teams, noise=1e-9
    ).correct


PEERS: dict[str, tuple[Peer, int, int]] = {  # teams to run on complete and on redrawn graphs
    "Mesa": (with_mesa, 3, 4),
    "NDlib": (with_ndlib, 2, 2),
    "NumPy": (with_numpy, 2000, 500),
    "Abilene": (with_abilene, 20_000, 20_000),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results: list[dict[str, object]] = []
    for name, (run, *sizes) in PEERS.items():
        for q, teams in zip((None, 3), sizes, strict=True):
            try:
                run(N, q, 1)  # compile, import
            except ImportError as e:
                print(f"{name}: left out ({e})", file=sys.stderr)
                continue
            begin = time.process_time()
            correct = run(N, q, teams)
            ns = (time.process_time() - begin) / (teams * N * T) * 1e9
            graph = "complete" if q is None else f"random q={q}"
            results.append(
                {"peer": name, "graph": graph, "ns_per_update": ns, "teams": teams, "correct": correct}
            )
    own = {x["graph"]: float(str(x["ns_per_update"])) for x in results if x["peer"] == "Abilene"}
    for x in results:
        x["ratio"] = float(str(x["ns_per_update"])) / own[str(x["graph"])]
    if options.json:
        print(json.dumps(results))
        return
    print(f"N={N}, T={T}, one thread; CPU nanoseconds per agent-update; correct: share of teams, as a check")
    print(f"{'peer':<9}{'graph':<13}{'ns':>10}{'ratio':>9}{'correct':>10}{'teams':>8}")
    for x in results:
        print(
            f"{x['peer']:<9}{x['graph']:<13}{x['ns_per_update']:>10.2f}{x['ratio']:>9.1f}"
            f"{x['correct']:>10.3f}{x['teams']:>8}"
        )


if __name__ == "__main__":
    main()
