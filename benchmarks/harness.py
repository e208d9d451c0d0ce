"""The harness over HTTP: 24 discussions at once against a mock server with 2 s latency (840 calls).

Prints wall time over the critical path of (1 + T) latencies and CPU-ms a call, with a bare AsyncOpenAI client
sending the same number of calls in the same way beside it. The server runs in a process of its own.

    python benchmarks/harness.py [--latency 2] [--tasks 24]
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from _mock_server import mock_server

TEAM, ROUNDS = 5, 3


def bare(url: str, tasks: int, *, fast: bool) -> tuple[float, float]:
    """Wall and CPU seconds of the same calls by a bare client: a gather per round, no cache, no log."""
    from openai import AsyncOpenAI, DefaultAioHttpClient

    prompt = "word " * 500 + "\nANSWER: <x or y>"
    messages = [{"role": "system", "content": "You are one of five."}, {"role": "user", "content": prompt}]

    async def one(client: AsyncOpenAI) -> None:
        await client.chat.completions.create(model="mock", messages=messages)

    async def discussion(client: AsyncOpenAI) -> None:
        await asyncio.gather(*(one(client) for _ in range(TEAM)))
        for _ in range(ROUNDS):
            await asyncio.gather(*(one(client) for _ in range(2 * TEAM)))

    async def everything() -> None:
        options = {"http_client": DefaultAioHttpClient()} if fast else {}
        async with AsyncOpenAI(base_url=url, api_key="none", **options) as client:
            await asyncio.gather(*(discussion(client) for _ in range(tasks)))

    wall, cpu = time.perf_counter(), time.process_time()
    asyncio.run(everything())
    return time.perf_counter() - wall, time.process_time() - cpu


def harness(url: str, tasks: int, out: Path) -> tuple[float, float]:
    """Wall and CPU seconds of a run, record and logs included."""
    from abilene.evals.drive import RunConfig, run

    config = RunConfig(
        model="openai-api/mock/mock",
        base_url=url,
        tasks=tasks,
        rounds=ROUNDS,
        out=out,
        connections=2 * TEAM * tasks,
    )
    wall, cpu = time.perf_counter(), time.process_time()
    result = run(config, progress=False)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    assert result.complete and not result.loaded.faults, result
    assert result.loaded.record["public"].null_count() == 0
    return wall, cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--latency", type=float, default=2.0)
    parser.add_argument("--tasks", type=int, default=24)
    args = parser.parse_args()
    calls = args.tasks * TEAM * (1 + 2 * ROUNDS)
    path = (1 + ROUNDS) * args.latency
    with mock_server(latency=args.latency) as url, tempfile.TemporaryDirectory() as folder:
        rows = []
        # A first small run pays for imports, which do not grow with the run.
        harness(url.replace("2.0", "0"), 1, Path(folder) / "warm")
        rows.append(("abilene", *harness(url, args.tasks, Path(folder) / "run")))
        rows.append(("bare AsyncOpenAI", *bare(url, args.tasks, fast=False)))
        rows.append(("bare AsyncOpenAI, aiohttp", *bare(url, args.tasks, fast=True)))
    print(f"{calls} calls, latency {args.latency:g} s, critical path {path:g} s")
    print(f"{'':28}{'wall s':>8}{'ratio':>8}{'CPU-ms a call':>15}")
    for name, wall, cpu in rows:
        print(f"{name:28}{wall:8.1f}{wall / path:8.2f}{1000 * cpu / calls:15.2f}")


if __name__ == "__main__":
    main()
