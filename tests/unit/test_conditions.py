"""Three conditions side by side: counted by hand, by brute force, and against the gain of `estimate`."""

import asyncio
import json
import math
from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import polars as pl
import pytest
from _data import data_file
from hypothesis import given, settings
from hypothesis import strategies as st

from abilene.analysis import _shares
from abilene.analysis.conditions import conditions, conditions_by_setting
from abilene.analysis.estimate import estimate
from abilene.analysis.gain import paired_score, wilson
from abilene.errors import UsageError
from abilene.rates import Rates
from abilene.records.schema import Row, frame
from abilene.tasks import benchmark
from abilene.team.behavioural import BehaviouralAgent
from abilene.team.call import Completion
from abilene.team.open_discussion import discuss_openly
from abilene.team.protocol import Protocol, discuss

SETTING = {"benchmark": "hiddenbench", "model": "m", "team": "N=3"}


def votes(task, t, answers, *, epoch=1, truth="x"):
    """Rows of one round; "-" is a missing answer."""
    return [
        Row(
            task=task,
            epoch=epoch,
            round=t,
            agent=str(i),
            truth=truth,
            private=None if a == "-" else a,
            public=None if a == "-" else a,
            private_status="missing" if a == "-" else "ok",
            public_status="missing" if a == "-" else "ok",
        )
        for i, a in enumerate(answers)
    ]


def record(given, **setting):
    """A record from {(task, epoch): [answers of round 0, of round 1, ...]}."""
    rows = [r for (t, e), all_ in given.items() for k, a in enumerate(all_) for r in votes(t, k, a, epoch=e)]
    return frame(rows, {**SETTING, **setting})


def full_record(given, **setting):
    return record(given, **{"setting": "full profile", **setting})


# By hand --------------------------------------------------------------------------------------------------

HIDDEN = {
    ("a", 1): ["yyx", "xxy"],  # 1/3 -> 2/3; wrong -> right
    ("b", 1): ["xyz", "xx-"],  # 1/3 -> 2/2; tie (wrong) -> right, one answer missing
    ("c", 1): ["yy-", "xy-"],  # 0/2 -> 1/2; wrong -> tie (wrong)
    ("d", 1): ["xxx", "yyx"],  # 3/3 -> 1/3; right -> wrong
}
FULL = {("a", 1): ["xxx"], ("b", 1): ["xxy"], ("c", 1): ["xyy"], ("d", 1): ["xxx"]}


def test_by_hand():
    found = conditions(full_record(FULL), record(HIDDEN))
    average, majority = found.average, found.majority
    assert average.full.mean == pytest.approx((1 + 2 / 3 + 1 / 3 + 1) / 4)
    assert average.before.mean == pytest.approx((1 / 3 + 1 / 3 + 0 + 1) / 4)
    assert average.after.mean == pytest.approx((2 / 3 + 1 + 1 / 2 + 1 / 3) / 4)
    assert average.gain.mean == pytest.approx((1 / 3 + 2 / 3 + 1 / 2 - 2 / 3) / 4)
    assert average.gap.mean == pytest.approx((-1 / 3 + 1 / 3 + 1 / 6 - 2 / 3) / 4)
    assert (majority.full.mean, majority.before.mean, majority.after.mean) == (0.75, 0.25, 0.5)
    assert (majority.gain.mean, majority.gap.mean) == (0.25, -0.25)
    # Net gains of the tasks, in sixths: 2, 4, 3, -4. |sum| >= 5 in how many of the 16 sign patterns?
    extreme = sum(
        abs(sum(s * g for s, g in zip(signs, (2, 4, 3, 4), strict=True))) >= 5
        for signs in product((1, -1), repeat=4)
    )
    assert average.gain.p_value == extreme / 16
    assert majority.gain.p_value == 1.0  # two won, one lost
    assert (majority.gain.n, majority.gain.tasks) == (4, 4)
    m = found.missing
    assert (m["full"].answers, m["before"].answers, m["after"].answers) == (0, 1, 2)
    assert (m["full"].ties, m["before"].ties, m["after"].ties) == (0, 1, 1)
    assert {x.asked for x in m.values()} == {12}
    assert {x.unscored + x.no_key for x in m.values()} == {0}
    assert "after: 2 of 12 answers are missing and count neither way." in found.reasons


def test_missing_is_never_wrong_and_a_tie_is():
    """The same answers with a missing one in the place of a wrong one score higher, under both scorings."""
    one = conditions(None, record({("a", 1): ["xyy", "xyy"]}))
    gone = conditions(None, record({("a", 1): ["x--", "x-y"]}))
    assert (one.average.before.mean, gone.average.before.mean) == (pytest.approx(1 / 3), 1.0)
    assert (one.majority.before.mean, gone.majority.before.mean) == (0.0, 1.0)
    assert (gone.average.after.mean, gone.majority.after.mean) == (0.5, 0.0)


def test_a_discussion_without_answers_has_no_score():
    found = conditions(None, record({("a", 1): ["xxy", "---"], ("b", 1): ["yyy", "xxx"]}))
    assert found.missing["after"].unscored == 1
    assert (found.average.after.mean, found.average.before.mean) == (1.0, pytest.approx(1 / 3))
    assert (found.average.gain.mean, found.average.gain.n) == (1.0, 1)
    assert (found.majority.gain.mean, found.majority.gain.n) == (1.0, 1)


def test_several_discussions_of_a_task_are_one_unit_and_are_paired_by_epoch():
    hidden = {
        ("a", 1): ["yyy", "xxx"],
        ("a", 2): ["yyy", "yyy"],
        ("b", 1): ["yyy", "yyy"],
        ("b", 2): ["yyx", "yyx"],
    }
    full = {("a", 1): ["xxx"], ("a", 2): ["xxx"], ("a", 3): ["yyy"], ("b", 1): ["yyx"]}
    found = conditions(full_record(full), record(hidden))
    assert (found.majority.gain.mean, found.majority.gain.n, found.majority.gain.tasks) == (0.25, 4, 2)
    # Gap by task: a: 1/2 - 2/3, b: 0 - 0.
    assert found.majority.gap.mean == pytest.approx((1 / 2 - 2 / 3) / 2)
    assert found.average.gap.mean == pytest.approx(((1 / 2 - 2 / 3) + (1 / 6 - 1 / 3)) / 2)
    assert (found.majority.gap.n, found.majority.gap.tasks) == (2, 2)
    assert found.majority.gap.p_value == 1.0


# Against other computations --------------------------------------------------------------------------------

answers = st.text(alphabet="xyz-", min_size=3, max_size=3)
discussions = st.dictionaries(
    st.tuples(st.sampled_from("abcde"), st.integers(1, 3)),
    st.lists(answers, min_size=2, max_size=2),
    min_size=1,
)


def brute(given, t):
    """Scores by discussion in exact fractions."""
    average, majority = {}, {}
    for key, all_ in given.items():
        said = [a for a in all_[t] if a != "-"]
        if said:
            average[key] = Fraction(said.count("x"), len(said))
            top = Counter(said).most_common(2)
            unique = len(top) == 1 or top[0][1] > top[1][1]
            majority[key] = Fraction(int(unique and top[0][0] == "x"))
    return {"average": average, "majority": majority}


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else None


def by_task(scores):
    return {t: mean(v for (k, _), v in scores.items() if k == t) for t in {k for k, _ in scores}}


@settings(max_examples=60, deadline=None)
@given(hidden=discussions, full=discussions)
def test_against_brute_force(hidden, full):
    found = conditions(full_record(full), record(hidden), bootstraps=50)
    ends, ceiling = [brute(hidden, t) for t in (0, 1)], brute(full, 0)
    for name in ("average", "majority"):
        out = getattr(found, name)
        before, after, top = ends[0][name], ends[1][name], ceiling[name]
        pairs = before.keys() & after.keys()
        tops, reached = by_task(top), by_task(after)
        both = tops.keys() & reached.keys()
        for value, expected in [
            (out.full, mean(top.values())),
            (out.before, mean(before.values())),
            (out.after, mean(after.values())),
            (out.gain, mean(after[k] - before[k] for k in pairs)),
            (out.gap, mean(reached[t] - tops[t] for t in both)),
        ]:
            if expected is None:
                assert value.mean is None
                assert value.reason
                continue
            assert value.mean == pytest.approx(float(expected), abs=1e-12)
            assert -1 <= value.mean <= 1
            if value.tasks > 1:
                assert value.lower <= value.upper
        for value, differences in (
            (
                out.gain,
                [sum(after[k] - before[k] for k in pairs if k[0] == t) for t in {k[0] for k in pairs}],
            ),
            (out.gap, [reached[t] - tops[t] for t in both]),
        ):
            if differences:
                size = abs(sum(differences))
                flips = [
                    abs(sum(s * d for s, d in zip(signs, differences, strict=True))) >= size
                    for signs in product((1, -1), repeat=len(differences))
                ]
                assert value.p_value == pytest.approx(sum(flips) / len(flips), abs=1e-9)
    asked = sum(len(a[1]) for a in hidden.values())
    assert found.missing["after"].asked == asked
    assert found.missing["after"].answers == sum(a[1].count("-") for a in hidden.values())


def random_hidden(tasks, seed, before=0.3, after=0.6, epochs=1):
    rng = np.random.default_rng(seed)
    out = {}
    for k in range(tasks):
        for e in range(1, epochs + 1):
            ends = ["".join("x" if rng.random() < p else "y" for _ in range(3)) for p in (before, after)]
            out[f"t{k:03d}", e] = ends
    return out


@pytest.mark.parametrize("epochs", [1, 3])
def test_the_majority_gain_is_that_of_estimate(epochs):
    hidden = record(random_hidden(40, 1, epochs=epochs))
    ours, theirs = conditions(None, hidden, seed=4).majority, estimate(hidden, seed=4).settings[0].gain
    assert (ours.gain.mean, ours.gain.lower, ours.gain.upper) == (theirs.mean, theirs.lower, theirs.upper)
    assert (ours.gain.p_value, ours.gain.n) == (theirs.p_value, theirs.n)
    assert (ours.before.mean, ours.after.mean) == (theirs.vote.mean, theirs.discussion.mean)


def test_intervals_are_those_of_the_normal_law_for_many_tasks():
    hidden = random_hidden(400, 2)
    found = conditions(
        full_record({k: [a[1]] for k, a in random_hidden(400, 3, after=0.9).items()}),
        record(hidden),
        bootstraps=4000,
    )
    shares = np.array([[a[t].count("x") / 3 for t in (0, 1)] for a in hidden.values()])
    gain = shares[:, 1] - shares[:, 0]
    half = 1.96 * gain.std() / math.sqrt(400)
    assert found.average.gain.lower == pytest.approx(gain.mean() - half, abs=0.004)
    assert found.average.gain.upper == pytest.approx(gain.mean() + half, abs=0.004)
    half = 1.96 * shares[:, 1].std() / math.sqrt(400)
    assert found.average.after.upper - found.average.after.mean == pytest.approx(half, abs=0.004)
    assert found.average.gap.upper < 0
    assert found.average.gap.p_value < 1e-6


def test_resampling_takes_tasks_whole():
    """Ten repetitions of each task, all alike, are worth no more than one; a mutant that forgets tasks fails."""
    once = random_hidden(30, 5)
    often = {(t, e): a for (t, _), a in once.items() for e in range(1, 11)}
    width = [(v := conditions(None, record(h)).average.gain).upper - v.lower for h in (once, often)]
    assert width[1] == pytest.approx(width[0], rel=0.12)


@pytest.mark.slow
def test_intervals_cover():
    """Gap and average gain hold the truth in 95 % of 300 sets of 40 tasks; bounds 90.5 % and 98.5 % (false-alarm rate
    under 1e-3 each at exact coverage; seeds are fixed). The mutant, intervals of two thirds of the width, must fail."""
    rng = np.random.default_rng(11)
    hit = Counter()
    for _ in range(300):
        # Tasks differ: a difficulty that all conditions share.
        easy = rng.random(40) < 0.5
        hidden, full = {}, {}
        for k, e in enumerate(easy):
            p = (0.1, 0.5, 0.7) if e else (0.05, 0.2, 0.6)
            a, b, c = ("".join("x" if rng.random() < q else "y" for _ in range(3)) for q in p)
            hidden[f"t{k}", 1], full[f"t{k}", 1] = [a, b], [c]
        found = conditions(full_record(full), record(hidden), bootstraps=400)
        for name, value, truth in (("gain", found.average.gain, 0.275), ("gap", found.average.gap, -0.3)):
            hit[name] += value.lower <= truth <= value.upper
            hit[f"narrow {name}"] += abs(truth - value.mean) <= (value.upper - value.lower) / 3
    for name in ("gain", "gap"):
        assert 0.905 <= hit[name] / 300 <= 0.985, hit
        assert hit[f"narrow {name}"] / 300 < 0.905, hit


# What is not known -----------------------------------------------------------------------------------------


def test_without_a_full_profile_there_is_no_ceiling():
    found = conditions(None, record(HIDDEN))
    for scoring in (found.average, found.majority):
        assert (scoring.full.mean, scoring.gap.mean, scoring.gap.p_value) == (None, None, None)
        assert scoring.gap.reason == "no record of the full profile"
    assert "full" not in found.missing
    assert found.average.gain == conditions(full_record(FULL), record(HIDDEN)).average.gain


def test_one_task_has_no_interval():
    found = conditions(None, record({("a", 1): ["yyx", "xxy"]}))
    for value in (found.average.gain, found.majority.gain, found.average.after):
        assert (value.lower, value.upper) == (None, None)
        assert value.reason.startswith("one task")


def test_where_all_tasks_are_alike_the_interval_is_no_point():
    hidden = {(f"t{k}", 1): ["yyy", "yyx"] for k in range(20)}
    found = conditions(full_record({k: ["xxx"] for k in hidden}), record(hidden))
    assert (found.average.full.lower, found.average.full.upper) == wilson(20, 20)
    # A third of 20 tasks lies between 6 and 7.
    assert (found.average.after.lower, found.average.after.upper) == (wilson(6, 20)[0], wilson(7, 20)[1])
    assert found.average.after.interval == "score"
    assert (found.average.gain.lower, found.average.gain.upper) == pytest.approx(paired_score(20 / 3, 0, 20))
    assert (found.average.gap.lower, found.average.gap.upper) == pytest.approx(paired_score(0, 40 / 3, 20))
    assert (found.majority.gain.lower, found.majority.gain.upper) == paired_score(0, 0, 20)


def test_round_0_alone_has_no_after():
    found = conditions(None, record({("a", 1): ["xxy"], ("b", 1): ["yyy"]}))
    assert found.average.before.mean == pytest.approx(1 / 3)
    assert found.average.after.mean is None
    assert found.average.gain.reason == "no discussion has both votes"


def test_later_rounds_of_the_full_profile_do_not_enter():
    full = {k: [a[0], "yyy"] for k, a in FULL.items()}
    assert (
        conditions(full_record(full), record(HIDDEN)).average
        == conditions(full_record(FULL), record(HIDDEN)).average
    )


def test_tasks_of_one_record_only_and_other_answer_keys_stay_out_of_the_gap():
    full = {**FULL, ("extra", 1): ["yyy"]}
    less = {k: v for k, v in HIDDEN.items() if k[0] != "d"}
    found = conditions(full_record(full), record(less))
    assert found.average.gap.tasks == 3
    assert any(r.startswith("2 tasks are in one of the two records only") for r in found.reasons)
    other = full_record(FULL).with_columns(
        pl.when(pl.col("task") == "a").then(pl.lit("y")).otherwise("truth").alias("truth")
    )
    found = conditions(other, record(HIDDEN))
    assert found.average.gap.tasks == 3
    assert any("different answer keys" in r for r in found.reasons)


def test_tasks_without_one_key_are_left_out():
    rows = [
        *votes("a", 0, "xyy"),
        *votes("a", 1, "xxx"),
        *votes("b", 0, "xyy", truth=None),
        *votes("b", 1, "xxx", truth=None),
    ]
    found = conditions(None, frame(rows, SETTING))
    assert (found.missing["before"].no_key, found.average.after.n) == (1, 1)


def test_what_cannot_be_compared_is_refused():
    two = pl.concat([record(HIDDEN), record(HIDDEN, instruction="C")])
    with pytest.raises(UsageError, match="holds 2"):
        conditions(None, two)
    with pytest.raises(UsageError, match="holds none"):
        conditions(None, two.clear())
    with pytest.raises(UsageError, match="model 'other'"):
        conditions(full_record(FULL, model="other"), record(HIDDEN))
    conditions(full_record(FULL, instruction="A"), record(HIDDEN, instruction="C"))


@pytest.mark.parametrize(
    ("full", "hidden", "told"),
    [
        (None, "open discussion of 2 rounds", "F was run with --condition hidden; --full needs"),
        ("2 rounds", "full profile", "The two are swapped: H was run with --condition full, and F"),
        ("full profile", "c=0.3; full profile", "H was run with --condition full; HIDDEN needs"),
        ("full profiles", None, "F was run with --condition hidden"),
    ],
)
def test_a_run_of_the_other_condition_is_refused(full, hidden, told):
    with pytest.raises(UsageError) as caught:
        conditions(record(FULL, setting=full), record(HIDDEN, setting=hidden), names=("F", "H"))
    assert str(caught.value).startswith(told) and "\n" not in str(caught.value)


def test_a_full_profile_without_a_ceiling_is_refused_too():
    with pytest.raises(UsageError, match="HIDDEN needs a run with --condition hidden"):
        conditions(None, full_record(HIDDEN))


RATES = "c=0.3 a=0.5 rho=1 r=0.8"


@pytest.mark.parametrize(
    "hidden",
    [RATES, f"{RATES}; 2 rounds", f"{RATES}; open discussion of 15 rounds",
     f"{RATES}; open discussion of 4 rounds, stopping early"],
)  # fmt: skip
def test_how_discussions_go_on_is_no_difference_and_simulated_rates_are(hidden):
    at_0 = "full profile; open discussion of 0 rounds"
    found = conditions(full_record(FULL, setting=f"{RATES}; {at_0}"), record(HIDDEN, setting=hidden))
    assert found.average.gap == conditions(full_record(FULL), record(HIDDEN)).average.gap
    for other in (f"{RATES} oracle; {at_0}", f"c=0.5 a=0.5 rho=1 r=0.8; {at_0}", at_0):
        with pytest.raises(UsageError, match=r"Only the same agents on the same benchmark .* same -M"):
            conditions(full_record(FULL, setting=other), record(HIDDEN, setting=hidden))


def test_another_subset_of_tasks_is_compared_where_all_tasks_can_be_paired():
    three = {k: v for k, v in HIDDEN.items() if k[0] in "ab"}
    four = {(t, 1): [a + "x" for a in v] for (t, _), v in HIDDEN.items() if t in "cd"}
    full_three = {k: v for k, v in FULL.items() if k[0] in "ab"}
    full_four = {("c", 1): ["xyyx"], ("d", 1): ["xxxx"]}
    both = full_record({**full_three, **full_four}, team="N=3,4")
    found = conditions(both, record(four, team="N=4"))
    assert found.average.gap.tasks == 2
    with pytest.raises(
        UsageError, match=r"2 of 4 tasks of H are not in F, such as 'a'\. Run both with the same"
    ):
        conditions(
            full_record(full_four, team="N=4"), record({**three, **four}, team="N=3,4"), names=("F", "H")
        )
    # Teams of other sizes for the same tasks are not the same agents.
    with pytest.raises(UsageError, match=r"'a' has a team of 3 .* and of 4 .*same --team-size"):
        conditions(full_record({k: [v[0] + "x"] for k, v in FULL.items()}, team="N=4"), record(HIDDEN))
    with pytest.raises(UsageError, match="team 'N=3, personas 1a'"):
        conditions(full_record(FULL, team="N=3, personas 1a"), record(HIDDEN))


# Several settings -------------------------------------------------------------------------------------------


def test_every_setting_of_a_sweep_is_compared_as_if_it_were_alone():
    other = {k: [v[0], "xxx"] for k, v in HIDDEN.items()}
    parts = [record(HIDDEN, setting="1 rounds"), record(other, setting="2 rounds")]
    alone = tuple(conditions(full_record(FULL), part) for part in parts)
    assert conditions_by_setting(full_record(FULL), pl.concat(parts[::-1])) == alone
    assert [c.majority.after.mean for c in alone] == [0.5, 1.0]
    # A full run that was swept as well: round 0 is the same.
    swept = pl.concat([full_record(FULL), full_record(FULL, setting="full profile; 2 rounds")])
    assert conditions_by_setting(swept, pl.concat(parts)) == alone
    assert [c.average.gap.mean for c in conditions_by_setting(None, pl.concat(parts))] == [None, None]


def test_each_team_size_has_its_own_ceiling():
    wide = {k: [a + "y" for a in v] for k, v in HIDDEN.items()}
    full_wide = {k: [v[0] + "y"] for k, v in FULL.items()}
    full = pl.concat([full_record(FULL), full_record(full_wide, team="N=4")])
    small, large = conditions_by_setting(full, pl.concat([record(HIDDEN), record(wide, team="N=4")]))
    assert small == conditions(full_record(FULL), record(HIDDEN))
    assert large == conditions(full_record(full_wide, team="N=4"), record(wide, team="N=4"))
    assert small.average.full != large.average.full


def test_several_ceilings_that_differ_are_refused():
    other = full_record({k: ["yyy"] for k in FULL}, instruction="C")
    with pytest.raises(UsageError, match="holds 2 settings of these agents, with different"):
        conditions(pl.concat([full_record(FULL), other]), record(HIDDEN))
    with pytest.raises(UsageError, match="holds no rows"):
        conditions(full_record(FULL).clear(), record(HIDDEN))


def test_json_holds_no_nan_and_says_why():
    for found in (
        conditions(full_record(FULL), record(HIDDEN)),
        conditions(None, record({("a", 1): ["---", "---"]})),
    ):
        out = json.loads(json.dumps(found.to_json(), allow_nan=False))
        assert set(out) == {"schema", "setting", "simulated", "scoring", "missing", "reasons"}
        for scoring in out["scoring"].values():
            assert set(scoring) == {"full", "before", "after", "gain", "gap"}
            assert all(v["reason"] for v in scoring.values() if v["mean"] is None)


def test_the_result_depends_on_the_seed_alone():
    shuffled = record(HIDDEN).sample(fraction=1.0, shuffle=True, seed=1)
    assert conditions(full_record(FULL), shuffled, seed=2) == conditions(
        full_record(FULL), record(HIDDEN), seed=2
    )


def test_large_teams_with_gaps_stay_exact_enough():
    rng = np.random.default_rng(0)
    hidden = {(f"t{k}", 1): ["".join(rng.choice(list("xy-"), 97)) for _ in range(2)] for k in range(20)}
    found = conditions(None, record(hidden))
    assert 0.0 < found.average.gain.p_value <= 1.0
    assert found.average.gain.lower < found.average.gain.mean < found.average.gain.upper


# From discussions -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["structured", "open"])
def test_real_tasks_with_simulated_agents(way):
    """Agents that are right in 80 % of the votes on all facts and in 10 % otherwise; bounds at 5 standard errors."""
    make, path = benchmark("hiddenbench").make, data_file("hiddenbench.json")

    def hold(accuracy, condition, **options):
        agent = BehaviouralAgent((Rates(c=0.5, a=0.5, rho=0.5, r=0.8),), accuracy=accuracy)

        async def ask(call):
            return Completion(agent.reply(call.system, call.user, call.metadata))

        async def every():
            rows = []
            for task in make(data=path, condition=condition):
                one = (
                    discuss_openly(task, ask, Protocol(), **options)
                    if way == "open"
                    else discuss(task, ask, Protocol())
                )
                rows += await one
            return rows

        label = "full profile" if condition == "full" else None
        parts = {"benchmark": "hiddenbench", "model": "behavioural/agent", "setting": label}
        return frame(asyncio.run(every()), parts)

    found = conditions(hold(0.8, "full", depth=0), hold(0.1, "hidden", depth=3))
    assert found.simulated
    assert found.average.full.mean == pytest.approx(0.8, abs=5 * math.sqrt(0.16 / 252))
    assert found.average.before.mean == pytest.approx(0.1, abs=5 * math.sqrt(0.09 / 252))
    assert found.average.gain.mean == pytest.approx(found.average.after.mean - found.average.before.mean)
    assert found.average.gap.mean == pytest.approx(found.average.after.mean - found.average.full.mean)
    assert found.average.full.tasks == 65


# Mutants ----------------------------------------------------------------------------------------------------


def test_mutants_are_caught(monkeypatch):
    def by_discussion(scores):
        return {f"{t} {e}": v for (t, e), v in scores.items()}

    def of_single_answers(values, tasks, nothing, whole=_shares.mean):
        return whole(values, [f"{t} {i}" for i, t in enumerate(tasks)], nothing)

    mutants = [
        ("by_task", by_discussion, test_several_discussions_of_a_task_are_one_unit_and_are_paired_by_epoch),
        ("mean", of_single_answers, test_resampling_takes_tasks_whole),
        (
            "bootstrap",
            lambda sums, counts, rng, b: (float((sums / counts).mean()),) * 2,
            test_where_all_tasks_are_alike_the_interval_is_no_point,
        ),
        ("exact_p_value", lambda net: 0.5, test_by_hand),
    ]
    for name, mutant, test in mutants:
        with monkeypatch.context() as patch:
            patch.setattr(_shares, name, mutant)
            with pytest.raises(AssertionError):
                test()


def test_a_topology_file_is_no_other_team():
    """Round 0 has no topology: a discussion on any has the same ceiling."""
    ring = record(HIDDEN, setting="topology 0a1b2c3d", topology="ring.json")
    found = conditions(full_record(FULL), ring)
    plain = conditions(full_record(FULL), record(HIDDEN))
    assert found.majority == plain.majority and found.average == plain.average
    with pytest.raises(UsageError, match="--prompts"):
        conditions(full_record(FULL), record(HIDDEN, setting="prompts mine 0a1b2c3d"))
