import numpy as np
import pytest
import xarray as xr

from abilene.analysis.whatif import Scenario, predict, whatif_scenarios
from abilene.errors import UsageError
from abilene.rates import Rates
from abilene.theory.agents import simulate
from abilene.theory.chain import solve, start_weights


def certain(c=None, a=None, u=None, v=None, draws=8):
    """A posterior without uncertainty."""
    names = {"withholding": c, "internalization": a, "flow_to_correct": u, "flow_to_wrong": v}
    return xr.Dataset(
        {k: (("chain", "draw"), np.full((1, draws), x)) for k, x in names.items() if x is not None}
    )


RATES = Rates(0.3, 0.5, 0.9, 0.8)
POSTERIOR = certain(0.3, 0.5, RATES.flow_to_correct, RATES.flow_to_wrong)
STARTS = [(0, 5), (1, 5), (2, 5), (2, 5), (4, 5)]


def test_prediction_equals_the_exact_chain_on_the_observed_starts():
    found = predict(POSTERIOR, STARTS, rounds=3)
    team = solve(5, 3, RATES)
    expected = np.mean([team.start(k).correct for k, _ in STARTS])
    assert found.discussion.median == pytest.approx(expected, abs=1e-12)
    assert found.vote.median == pytest.approx(1 / 5)
    assert found.gain.lower == pytest.approx(found.gain.upper)


def test_scenarios_change_one_thing():
    team = solve(5, 8, Rates(0.0, 0.5, 0.9, 0.8))
    expected = np.mean([team.start(k).correct for k, _ in STARTS])
    changed = Scenario(name="x", withholding=0.0, rounds=8)
    assert predict(POSTERIOR, STARTS, rounds=3, scenario=changed).discussion.median == pytest.approx(expected)


def test_a_larger_team_keeps_each_tasks_accuracy():
    """Against a simulation of 9 agents that start at p = 2/5: 40,000 teams, bound 4.5 standard errors (7e-6)."""
    found = predict(POSTERIOR, [(2, 5)], rounds=3, scenario=Scenario(name="x", team_size=9))
    team = simulate(9, 3, RATES, accuracy=0.4, replicates=40_000, seed=2)
    assert abs(found.discussion.median - team.correct) < 4.5 * team.standard_error
    assert any("grows or shrinks" in a for a in found.assumptions)


def test_teams_of_mixed_size():
    found = predict(POSTERIOR, [(1, 3), (2, 4)], rounds=2)
    expected = (solve(3, 2, RATES).start(1).correct + solve(4, 2, RATES).start(2).correct) / 2
    assert found.discussion.median == pytest.approx(expected)


def test_uncertainty_reaches_the_interval():
    wide = xr.Dataset(
        {
            "withholding": (("chain", "draw"), np.linspace(0, 1, 200)[None]),
            "internalization": (("chain", "draw"), np.full((1, 200), 0.5)),
            "flow_to_correct": (("chain", "draw"), np.full((1, 200), 0.7)),
            "flow_to_wrong": (("chain", "draw"), np.full((1, 200), 0.1)),
        }
    )
    found = predict(wide, STARTS, rounds=3)
    assert found.gain.upper - found.gain.lower > 0.2


def test_what_is_not_identified_is_not_predicted():
    found = predict(certain(0.3, 0.5), STARTS, rounds=3)
    assert not found.gain.identified
    assert "flow_to_correct" in found.gain.reason
    assert found.gain.median is None


def test_unidentified_internalization_is_said():
    found = predict(certain(0.0, None, 0.7, 0.1), STARTS, rounds=3)
    assert found.gain.identified
    assert any("internalization is not identified" in a for a in found.assumptions)


def test_rates_of_another_setting():
    other = certain(0.0, 0.0, 1.0, 0.0)
    found = predict(POSTERIOR, STARTS, rounds=3, scenario=Scenario(name="x", rates_from=other))
    team = solve(5, 3, Rates(0.0, 0.0, 1.0, 1.0))
    assert found.discussion.median == pytest.approx(np.mean([team.start(k).correct for k, _ in STARTS]))


@pytest.mark.parametrize("starts", [[], [(6, 5)], [(-1, 5)]])
def test_bad_starts(starts):
    with pytest.raises(UsageError):
        predict(POSTERIOR, starts, rounds=3)


def test_bad_values():
    with pytest.raises(UsageError):
        predict(POSTERIOR, STARTS, rounds=3, scenario=Scenario(name="x", withholding=1.2))
    with pytest.raises(UsageError):
        predict(POSTERIOR, STARTS, rounds=3, topology="random:7")


def test_list_of_scenarios():
    names = [
        s.name for s in whatif_scenarios(withholding=0.1, internalization=None, team_size=None, rounds=None)
    ]
    assert names == ["predicted, as measured", "withholding 0.1"]


def test_several_answers_are_not_a_wrong_bloc():
    """Four answers, against the agent simulation from independent answers (p = .3, wrong ones spread evenly): bound 4.5
    standard errors of both simulations together, 7e-6 by chance. The binary team is far away."""
    rates = Rates(0.3, 0.5, 1.0, 0.8)
    posterior = certain(0.3, 0.5, rates.flow_to_correct, rates.flow_to_wrong, draws=20)
    team = simulate(5, 3, rates, accuracy=0.3, answers=4, replicates=40_000, seed=3)
    starts = [(k, 5) for k, w in enumerate(start_weights(0.3, 5)) for _ in range(round(1000 * w))]
    found = predict(posterior, starts, rounds=3, answers=4)
    assert abs(found.discussion.mean - team.correct) < 4.5 * (team.standard_error + 0.5 / (20 * 400) ** 0.5)
    assert abs(predict(posterior, starts, rounds=3).discussion.mean - team.correct) > 0.15
    assert any("simulated" in a for a in found.assumptions)


def test_the_measured_topology_counts():
    """A ring of five, against the graph simulation; the complete team is more than 4.5 standard errors away."""
    rates = Rates(0.3, 0.5, 1.0, 0.8)
    posterior = certain(0.3, 0.5, rates.flow_to_correct, rates.flow_to_wrong, draws=20)
    ring = {i: ((i - 1) % 5, (i + 1) % 5) for i in range(5)}
    team = simulate(5, 3, rates, ring, start=2, replicates=40_000, seed=4)
    found = predict(posterior, [(2, 5)], rounds=3, topology="ring")
    spread = team.standard_error + 0.5 / (20 * 400) ** 0.5
    assert abs(found.discussion.mean - team.correct) < 4.5 * spread
    assert abs(predict(posterior, [(2, 5)], rounds=3).discussion.mean - team.correct) > 4.5 * spread
