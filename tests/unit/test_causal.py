"""Predictions of the causal test, and arms held against them."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
import xarray as xr
from _pipeline import hidden_profile
from scipy.stats import binom

from abilene.analysis.arms import change_of_gain, compare_arm, outcome, rule_kept, same_start
from abilene.analysis.causal import ARMS, predict_arms, record_digest, transparent_team
from abilene.analysis.estimate import estimate
from abilene.analysis.gain import paired_score
from abilene.analysis.whatif import Scenario, predict
from abilene.rates import Rates
from abilene.records.schema import Row, Status, frame
from abilene.team.interventions import Answer, Turn, forced_majority
from abilene.theory.chain import solve
from abilene.theory.kernel import outcomes, plurality

RATES = Rates(0.4, 0.5, 0.8, 0.8)
STARTS = ((0, 5), (1, 5), (2, 5), (2, 5), (4, 5))


def posterior(draws=8, **columns):
    return xr.Dataset(
        {
            k: (("chain", "draw"), np.broadcast_to(np.asarray(x, float), (1, draws)))
            for k, x in columns.items()
        }
    )


def control(data, starts=STARTS, rounds=3, discussions=None):
    """As much of an estimate as predictions rest on."""
    return SimpleNamespace(
        starts=tuple(starts),
        data=SimpleNamespace(rounds=rounds, discussions=len(starts) if discussions is None else discussions),
        posterior=SimpleNamespace(posterior=data),
    )


CERTAIN = posterior(
    withholding=0.4, internalization=0.5, flow_to_correct=RATES.flow_to_correct, flow_to_wrong=RATES.flow_to_wrong
)  # fmt: skip


def by_arm(found):
    return {p.arm: p for p in found.arms}


# The forced gain ------------------------------------------------------------------------------------------


def forced_verdicts(start, beliefs, rule):
    """Whether the plurality is 1, before and after rounds under the rule; beliefs[t] are those of round t."""
    said, own = list(start), list(start)
    for new in beliefs:
        answers = [Answer(s, s, Status.OK) for s in said]
        turns = [
            Turn(
                Answer(z, z, Status.OK),
                Answer(n, n, Status.OK),
                answers[i],
                (*answers[:i], *answers[i + 1 :]),
            )
            for i, (z, n) in enumerate(zip(own, new, strict=True))
        ]
        said, own = [rule(turn).opinion for turn in turns], list(new)
    return plurality(list(start)) == "1", plurality(said) == "1"


def changes_the_verdict(n, options, rule):
    """Whether any start and any beliefs move the verdict in two rounds, and how; every case is tried for N <= 4."""
    rng = np.random.default_rng(n)
    found = set()
    for start in product(options, repeat=n):
        every = list(product(options, repeat=n))
        pick = every if n <= 3 else [every[i] for i in rng.integers(len(every), size=12)]
        for first in pick:
            before, after = forced_verdicts(
                start, [first, *(pick[int(i)] for i in rng.integers(len(pick), size=2))], rule
            )
            found.add(int(after) - int(before))
    return found


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6])
def test_forced_gain_of_two_options_is_0_whatever_the_agents_believe(n):
    assert changes_the_verdict(n, "10", forced_majority) == {0}


def test_the_proof_needs_the_answer_held_on_entering_and_two_options():
    """Mutants: with the new private answer on a tie, or with three options, the verdict does move."""

    def new_answer_on_a_tie(turn):
        seen = plurality([a.opinion for a in turn.seen])
        return turn.thought if seen is None else next(a for a in turn.seen if a.opinion == seen)

    assert changes_the_verdict(5, "10", new_answer_on_a_tie) != {0}
    assert changes_the_verdict(5, "102", forced_majority) != {0}


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6])
def test_the_model_agrees_that_c_1_gains_nothing(n):
    assert solve(n, 3, Rates(1.0, 0.5, 0.9, 0.8)).correct == pytest.approx(
        (2 * np.arange(n + 1) > n).astype(float)
    )


# Predictions ----------------------------------------------------------------------------------------------


def test_levels_are_those_of_whatif_and_changes_are_taken_draw_by_draw():
    """Draws that differ in c and u: levels equal `whatif.predict`, changes equal a loop over the same draws."""
    c, u = np.linspace(0.1, 0.8, 12), np.linspace(0.2, 0.7, 12)
    data = posterior(12, withholding=c, internalization=0.5, flow_to_correct=u, flow_to_wrong=0.1)
    found = predict_arms(control(data), options=4, draws=12, seed=3)
    for arm, rate in (("transparent", 0.0), ("forced_majority", 1.0)):
        expected = predict(
            data, STARTS, rounds=3, scenario=Scenario(name="x", withholding=rate), draws=12, seed=3
        )
        assert by_arm(found)[arm].gain == expected.gain
    assert found.control == predict(data, STARTS, rounds=3, draws=12, seed=3).gain

    def gain(c, u):
        team = solve(5, 3, Rates(c, 0.5, u + 0.1, u / (u + 0.1)))
        return np.mean([team.correct[k] for k, _ in STARTS])

    change = [gain(0.0, x) - gain(w, x) for w, x in zip(c, u, strict=True)]
    arm = by_arm(found)["transparent"]
    assert arm.change.mean == pytest.approx(np.mean(change))
    assert arm.change.lower == pytest.approx(np.quantile(change, 0.025))
    assert arm.direction == "up" and not arm.exact
    # Mutant: levels subtracted from each other, unpaired, give a wider interval.
    assert arm.change.upper - arm.change.lower < (arm.gain.upper - found.control.lower) - (
        arm.gain.lower - found.control.upper
    )


def test_two_options_make_the_forced_prediction_exact():
    arm = by_arm(predict_arms(control(CERTAIN), options=2))["forced_majority"]
    assert arm.exact and arm.predictive == (0.0, 0.0)
    assert (arm.gain.lower, arm.gain.median, arm.gain.upper) == (0.0, 0.0, 0.0)
    as_measured = predict(CERTAIN, STARTS, rounds=3).gain.median
    assert arm.change.median == pytest.approx(-as_measured) and arm.direction == "down"


@pytest.mark.parametrize(("options", "discussions"), [(3, 5), (None, 5), (2, 6)])
def test_otherwise_it_is_the_models_and_says_so(options, discussions):
    arm = by_arm(predict_arms(control(CERTAIN, discussions=discussions), options=options))["forced_majority"]
    assert not arm.exact and arm.gain.identified
    told = " ".join(arm.assumptions)
    assert ("binary projection" in told) == (options != 2)
    assert ("no complete round 0" in told) == (discussions == 6)


def test_what_is_not_identified_is_not_predicted():
    found = by_arm(predict_arms(control(posterior(withholding=0.4, internalization=0.5)), options=2))
    assert not found["transparent"].gain.identified and found["transparent"].direction is None
    assert found["transparent"].predictive is None and found["transparent"].gain.reason
    # The forced arm needs no rates for its level, but its change does.
    assert found["forced_majority"].gain.median == 0.0 and not found["forced_majority"].change.identified
    nothing = predict_arms(control(CERTAIN, starts=(), discussions=4), options=2)
    assert not nothing.control.identified and not any(p.gain.identified for p in nothing.arms)


def test_outcomes_expected_are_those_of_so_many_discussions():
    """40 discussions from 2 of 5, rates certain: against binomial quantiles, one discussion apart at most."""
    found = predict_arms(control(CERTAIN, starts=((2, 5),) * 40), options=2, draws=8)
    arm = by_arm(found)["transparent"]
    p = solve(5, 3, Rates(0.0, 0.5, 0.8, 0.8)).correct[2]
    expected = binom.ppf([0.025, 0.975], 40, p) / 40
    assert np.abs(np.array(arm.predictive) - expected).max() <= 1 / 40 + 1e-9
    assert arm.gain.upper - arm.gain.lower < 1e-9  # mutant: the posterior alone has no width here
    q = transparent_team(5, 3, RATES)[2]
    as_run = binom.ppf([0.025, 0.975], 40, q) / 40
    assert np.abs(np.array(arm.predictive_as_run) - as_run).max() <= 1 / 40 + 1e-9
    assert arm.gain_as_run.median == pytest.approx(q)


@pytest.mark.parametrize(("n", "rounds"), [(2, 2), (3, 2), (4, 1)])
def test_the_transparent_arm_as_run_against_enumeration(n, rounds):
    """Every path of every agent, with the kernel's own outcomes; beliefs are stated at once."""
    rates = Rates(0.4, 0.5, 0.8, 0.7)
    for k in range(n + 1):
        law = {tuple([1] * k + [0] * (n - k)): 1.0}
        for _ in range(rounds):
            new: dict[tuple, float] = {}
            for z, p in law.items():
                ways = [outcomes(z[i], [*z[:i], *z[i + 1 :]], 1, rates) for i in range(n)]
                for combination in product(*ways):
                    then = tuple(belief for _, belief, _ in combination)
                    new[then] = new.get(then, 0.0) + p * float(np.prod([q for *_, q in combination]))
            law = new
        expected = sum(p for z, p in law.items() if 2 * sum(z) > n)
        assert transparent_team(n, rounds, rates)[k] == pytest.approx(expected, abs=1e-12)
    # Mutant: the model with c = 0, whose statements lag one round behind, is another team.
    assert np.abs(solve(5, 3, Rates(0, 0.5, 0.8, 0.7)).correct - transparent_team(5, 3, rates)).max() > 0.05


@pytest.mark.slow
def test_observed_gains_lie_in_the_range_expected():
    """16 experiments of 80 tasks: P(13 or fewer inside | 95 %) = .7 %. Mutant: the control arm's own range."""
    inside, mutant = [], []
    for seed in range(16):
        arms = {
            a: hidden_profile(RATES, seed=seed, per_level=20, intervention=a) for a in ("none", "transparent")
        }
        before, after = (estimate(r).settings[0] for r in arms.values())
        arm = by_arm(predict_arms(before, options=2, draws=60, seed=seed))["transparent"]
        lower, upper = arm.predictive_as_run
        inside.append(lower <= after.gain.mean <= upper)
        mutant.append(before.gain.lower <= after.gain.mean <= before.gain.upper)
    assert sum(inside) >= 13 > sum(mutant)


# Arms -----------------------------------------------------------------------------------------------------


def arm(tasks, before, after, epochs=None):
    names = tuple(sorted(set(tasks)))
    return SimpleNamespace(
        tasks=names,
        discussion_task=np.array([names.index(t) for t in tasks]),
        vote_correct=np.array(before, bool),
        discussion_correct=np.array(after, bool),
    )


def test_changes_are_paired_by_task():
    one = arm("abcd", [0, 0, 1, 0], [0, 1, 1, 0])
    two = arm("bcde", [0, 1, 0, 1], [0, 1, 1, 1])
    found = change_of_gain(one, two)  # b: 0 - 1, c: 0 - 0, d: 1 - 0
    assert (found.tasks, found.unmatched, found.mean) == (3, 2, 0.0)
    assert found.p_value == 1.0 and found.lower <= -1 / 3 and found.upper >= 1 / 3
    # Mutant: means of the arms, unpaired, differ by 0.25 - 0.25 = 0 too, but over e and a as well.
    assert change_of_gain(arm("ab", [0, 0], [0, 0]), arm("ba", [0, 0], [1, 0])).mean == 0.5


def test_a_change_that_is_the_same_everywhere_keeps_an_interval():
    tasks = [f"t{i}" for i in range(30)]
    found = change_of_gain(arm(tasks, [0] * 30, [0] * 30), arm(tasks, [0] * 30, [0] * 30))
    assert found.mean == 0.0 and (found.lower, found.upper) == paired_score(0, 0, 30)
    up = change_of_gain(arm(tasks, [0] * 30, [0] * 30), arm(tasks, [0] * 30, [1] * 30))
    assert up.mean == up.upper == 1.0 and 0.7 < up.lower < 1.0
    alone = change_of_gain(arm("a", [0], [1]), arm("a", [0], [0]))
    assert alone.mean is None and alone.reason


def test_only_a_clear_change_speaks():
    expected = {
        ("up", "up"): "as predicted", ("up", "down"): "against", ("up", "unclear"): "undecided",
        ("down", "up"): "against", ("down", "none"): "undecided", ("none", "down"): "against",
        ("none", "none"): "as predicted", ("unclear", "up"): "not predicted", (None, "down"): "not predicted",
        ("up", None): "undecided",
    }  # fmt: skip
    assert {pair: outcome(*pair) for pair in expected} == expected


@pytest.fixture(scope="module")
def records():
    return {a: hidden_profile(RATES, seed=2, per_level=3, intervention=a) for a in ("none", *ARMS)}


def spoil(record, column, value, where):
    """One row changed."""
    at = record.with_row_index("_i").filter(where)["_i"][0]
    rows = pl.int_range(pl.len()) == at
    return record.with_columns(pl.when(rows).then(pl.lit(value)).otherwise(pl.col(column)).alias(column))


def test_arms_keep_their_rule_and_start_alike(records):
    rows = 12 * 5 * 3
    kept = {a: rule_kept(records[a], a) for a in ARMS}
    assert kept["transparent"] == (rows, rows)
    assert kept["forced_majority"][0] == kept["forced_majority"][1] > rows / 2
    assert all(same_start(records["none"], records[a]) == (60, 60) for a in ARMS)
    # Mutants: the arms without their rule, one answer changed.
    assert all(np.subtract(*rule_kept(records["none"], a)) < 0 for a in ARMS)
    later = (pl.col("round") == 2) & (pl.col("public") == pl.col("private"))
    assert rule_kept(spoil(records["transparent"], "public", "nobody", later), "transparent") == (
        rows - 1,
        rows,
    )
    changed = spoil(records["transparent"], "public", "nobody", pl.col("round") == 0)
    assert same_start(records["none"], changed) == (59, 60)
    fewer = records["transparent"].filter(pl.col("task") != "hp-0-000")
    assert same_start(records["none"], fewer) == (55, 60)


def test_a_missing_private_answer_is_a_missing_statement():
    rows = [Row(task="t", round=r, agent=i, truth="x", private=z, public=z)
            for r in (0, 1) for i, z in (("0", "x"), ("1", None))]  # fmt: skip
    assert rule_kept(frame(rows, {}), "transparent") == (2, 2)
    assert same_start(frame(rows, {}), frame(rows, {})) == (2, 2)


def test_a_comparison_sets_what_was_registered_beside_what_was_seen(records):
    found = {a: estimate(r).settings[0] for a, r in records.items()}
    predicted = by_arm(predict_arms(found["none"], options=2, draws=20))
    for name in ARMS:
        told = compare_arm(
            predicted[name], found["none"], found[name], records["none"], records[name]
        ).to_json()
        assert told["withholding"]["set"] == {"transparent": 0.0, "forced_majority": 1.0}[name]
        assert told["withholding"]["read"]["median"] > 0.1
        change = found[name].gain.mean - found["none"].gain.mean
        assert told["observed"]["change"]["mean"] == pytest.approx(change)
    assert told["observed"]["gain"]["mean"] == 0.0 and told["inside_predictive"] is True


def test_the_digest_of_a_record_is_that_of_its_content(records):
    record = records["none"]
    digest = record_digest(record)
    assert record_digest(record.sample(fraction=1.0, shuffle=True, seed=1)) == digest
    assert record_digest(spoil(record, "public", "nobody", pl.col("round") == 1)) != digest
    assert record_digest(spoil(record, "input_tokens", 7, pl.col("round") == 1)) != digest
    assert record_digest(record[:-1]) != digest
