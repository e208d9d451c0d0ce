"""From counts to the verdict: what follows from what, and what must not be read."""

from __future__ import annotations

import subprocess
import sys
import types
from typing import Any

import numpy as np
import pytest
import xarray as xr
from _oracle_inference import simulate

from abilene.errors import MissingExtraError, UsageError
from abilene.inference import SettingPosterior, critical_draws, setting_posterior
from abilene.rates import critical_withholding

TASKS = 60


def flow_rows(up: float, down: float, each: int = 240, d: float = 0.5) -> dict[str, Any]:
    """`each` rows a direction at dissent d, the shares up d and down d of them changed, spread over tasks."""
    change = [np.arange(each) < round(rate * d * each) for rate in (up, down)]
    place = np.arange(each) * 7 % TASKS
    return {
        "task": np.tile(place, 2),
        "enters_correct": np.repeat([False, True], each),
        "dissent": np.full(2 * each, d),
        "changed": np.concatenate(change),
    }


def setting(k_c: int, n_c: int, k_a: int, rows: dict[str, Any], **options: Any) -> SettingPosterior:
    """The same counts in each of 60 tasks."""
    counts = {name: np.full(TASKS, x) for name, x in (("k_c", k_c), ("n_c", n_c), ("k_a", k_a))}
    return setting_posterior(**counts, **rows, **options)


def only(rows: dict[str, Any], direction: bool) -> dict[str, Any]:
    keep = rows["enters_correct"] == direction
    return {name: array[keep] for name, array in rows.items()}


HIGH, NONE, NEGATIVE = flow_rows(0.8, 0.1), flow_rows(0.3, 0.3), flow_rows(0.1, 0.7)
NONE_SURE = flow_rows(0.3, 0.2, each=60)
ROUGH = flow_rows(0.5, 0.4, each=24)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        pytest.param(setting(1, 6, 0, HIGH), "below", id="little withholding, much correction"),
        pytest.param(setting(5, 6, 4, NONE), "above", id="much withholding, no correction"),
        pytest.param(setting(1, 6, 1, NEGATIVE), "above", id="negative correction: any withholding is above"),
        pytest.param(setting(1, 6, 1, ROUGH), "undecided", id="few rows"),
        pytest.param(setting(1, 6, 0, NONE_SURE), "undecided", id="few rows, probably below"),
    ],
)
def test_verdict_follows_the_interval_of_the_margin(found: SettingPosterior, verdict: str) -> None:
    assert found.verdict == verdict
    lower, upper = found.margin.lower, found.margin.upper
    assert lower is not None and upper is not None and found.probability_above is not None
    assert (verdict == "below") == (upper < 0)
    assert (verdict == "above") == (lower > 0)
    assert (verdict == "undecided") == (lower <= 0 <= upper)
    extreme = {"below": (0.0, 0.03), "above": (0.97, 1.0), "undecided": (0.02, 0.98)}[verdict]
    assert extreme[0] <= found.probability_above <= extreme[1]
    assert "margin" in found.reasons[0]


def test_negative_correction_has_threshold_0() -> None:
    found = setting(1, 6, 1, NEGATIVE)
    assert found.critical_withholding.median == 0.0
    assert found.margin.median == pytest.approx(found.withholding.median, abs=0.01)


NOTHING_WITHHELD = [
    pytest.param(HIGH, 6, "below", "whatever internalization is", id="much correction: below for any a"),
    pytest.param(NONE, 6, "unidentified", "cannot be above", id="correction near 0"),
    pytest.param(NEGATIVE, 6, "unidentified", "threshold is 0", id="negative correction"),
]


@pytest.mark.parametrize(("rows", "n", "verdict", "known"), NOTHING_WITHHELD)
def test_nobody_withholds(rows: dict[str, Any], n: int, verdict: str, known: str) -> None:
    found = setting(0, n, 0, rows)
    assert found.verdict == verdict
    assert known in " ".join(found.reasons)
    assert "at most" in found.reasons[0]
    assert (found.withholding.identified, found.withholding.lower) == (True, 0.0)
    for quantity in (found.internalization, found.critical_withholding, found.margin):
        assert not quantity.identified and quantity.reason and "nobody withheld" in quantity.reason
        assert (quantity.mean, quantity.median, quantity.lower, quantity.upper) == (None,) * 4
    assert found.probability_above is None
    left_out = {"internalization", "critical_withholding", "margin"}
    assert not left_out & set(found.posterior)
    assert all(name in found.posterior.attrs["unidentified"] for name in left_out)


def test_nobody_withholds_and_few_opportunities_settle_nothing() -> None:
    """Two opportunities, none taken: c may still be large, so the bound must not give a verdict."""
    k = np.zeros(2, dtype=int)
    found = setting_posterior(k_c=k, n_c=[1, 1], k_a=k, **HIGH)
    assert found.verdict == "unidentified"


def test_the_bound_holds_for_every_internalization() -> None:
    gamma = np.linspace(-1.0, 1.0, 201)
    for a in (0.0, 0.2, 0.7, 1.0):
        assert bool((critical_draws(gamma, a) >= critical_draws(gamma, 1.0)).all())


def test_withheld_rows_whose_private_answers_are_all_missing() -> None:
    nothing = np.zeros(TASKS, dtype=int)
    above, below, open_ = (
        setting(k, 6, 0, rows, n_a=nothing) for k, rows in ((3, NEGATIVE), (1, HIGH), (3, HIGH))
    )
    assert (above.verdict, below.verdict, open_.verdict) == ("above", "below", "unidentified")
    assert "no withheld row has a known private answer" in str(above.internalization.reason)
    assert "threshold is 0" in " ".join(above.reasons)
    assert "Nobody withheld" not in " ".join(below.reasons)


@pytest.mark.parametrize("direction", [True, False])
def test_sign_of_correction_is_not_read_without_both_directions(direction: bool) -> None:
    found = setting(3, 6, 2, only(HIGH, direction))
    assert found.verdict == "unidentified"
    assert found.probability_above is None
    assert (found.u.identified, found.v.identified) == (not direction, direction)
    for quantity in (found.net_correction, found.critical_withholding, found.margin):
        assert not quantity.identified and quantity.mean is None
    assert "sign is not read" in found.reasons[0]
    assert found.withholding.identified and found.internalization.identified
    assert set(found.posterior) == {"withholding", "internalization"}


def test_no_opportunities() -> None:
    found = setting(0, 0, 0, HIGH)
    assert found.verdict == "unidentified"
    assert "no opportunities" in " ".join(found.reasons)
    assert found.net_correction.identified
    assert not found.margin.identified
    assert set(found.posterior) == {"flow_to_correct", "flow_to_wrong", "net_correction"}


def test_nothing_at_all() -> None:
    found = setting_posterior(k_c=[], n_c=[], k_a=[], task=[], enters_correct=[], dissent=[], changed=[])
    assert found.verdict == "unidentified"
    assert len(found.posterior) == 0
    assert len(found.reasons) == 2


def test_probability_above_is_the_share_of_draws_but_less_noisy() -> None:
    """100,000 draws; 4.5 standard errors: false alarm 7e-6, seed fixed."""
    found = setting(2, 6, 1, flow_rows(0.6, 0.3, each=60), draws=100_000)
    p = found.probability_above
    assert p is not None and 0.05 < p < 0.95
    share = float((found.posterior["margin"] > 0).mean())
    assert share == pytest.approx(p, abs=4.5 * np.sqrt(p * (1 - p) / 100_000))
    several = [setting(2, 6, 1, flow_rows(0.6, 0.3, each=60), seed=s, temper=False) for s in range(20)]
    exact = np.std([x.probability_above or 0.0 for x in several])
    counted = np.std([float((x.posterior["margin"] > 0).mean()) for x in several])
    assert exact < counted


def test_draws_obey_the_definitions() -> None:
    post = setting(2, 6, 1, NONE).posterior
    gamma, a = post["net_correction"].values, post["internalization"].values
    np.testing.assert_allclose(gamma, (post["flow_to_correct"] - post["flow_to_wrong"]).values)
    np.testing.assert_allclose(
        post["margin"].values, (post["withholding"] - post["critical_withholding"]).values
    )
    for i in range(0, 1000, 50):
        expected = critical_withholding(float(gamma[0, i]), float(a[0, i]))
        assert float(post["critical_withholding"][0, i]) == pytest.approx(expected)
    assert bool((gamma < 0).any() and (post["critical_withholding"].values[gamma < 0] == 0).all())


def test_posterior_is_a_dataset_that_arviz_reads() -> None:
    az = pytest.importorskip("arviz")
    found = setting(2, 6, 1, HIGH)
    assert isinstance(found.posterior, xr.Dataset)
    assert dict(found.posterior.sizes) == {"chain": 4, "draw": 1000}
    assert not any(bool(v.isnull().any()) for v in found.posterior.values())
    assert set(found.posterior) == {
        "withholding", "internalization", "flow_to_correct", "flow_to_wrong",
        "net_correction", "critical_withholding", "margin",
    }  # fmt: skip
    table = az.summary(found.to_arviz())
    assert table.loc["margin", "mean"] == pytest.approx(found.margin.mean, abs=1e-3)
    assert float(table["r_hat"].max()) < 1.02
    odd = setting(2, 6, 1, HIGH, draws=4001)
    assert dict(odd.posterior.sizes) == {"chain": 1, "draw": 4001}


def test_arviz_of_version_1_gets_a_datatree(monkeypatch: pytest.MonkeyPatch) -> None:
    later = types.ModuleType("arviz")
    later.__version__ = "1.0.1"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "arviz", later)
    tree = setting(2, 6, 1, HIGH).to_arviz()
    assert isinstance(tree, xr.DataTree)
    assert "margin" in tree["posterior"].data_vars


def test_arviz_missing_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(MissingExtraError, match=r"abilene\[arviz\]"):
        setting(2, 6, 1, HIGH).to_arviz()


def test_seed_decides_everything_and_blocks_do_not_disturb_each_other() -> None:
    first, again, other = (setting(2, 6, 1, HIGH, seed=s) for s in (5, 5, 6))
    assert first.posterior.equals(again.posterior) and first.margin == again.margin
    assert not any(first.posterior[name].equals(other.posterior[name]) for name in first.posterior)
    without = setting(2, 6, 1, only(HIGH, True), seed=5)
    np.testing.assert_array_equal(without.posterior["withholding"], first.posterior["withholding"])


def test_recovers_the_rates_of_a_large_log() -> None:
    """3,000 tasks with c = a = .3, rho = .7, r = .9 (gamma .56): each within 4.5 posterior sd, seed fixed."""
    log = simulate(np.random.default_rng(11), tasks=3000, c=0.3, a=0.3, rho=0.7, r=0.9)
    found = setting_posterior(**log.arrays())  # type: ignore[arg-type]
    for quantity, true in (
        (found.withholding, 0.3),
        (found.internalization, 0.3),
        (found.u, 0.63),
        (found.v, 0.07),
        (found.net_correction, 0.56),
        (found.critical_withholding, 0.56 / 0.86),
    ):
        assert quantity.sd is not None and quantity.sd < 0.03
        assert quantity.mean == pytest.approx(true, abs=4.5 * quantity.sd)
    assert found.verdict == "below"


def test_arrays_must_fit_together() -> None:
    with pytest.raises(UsageError):
        setting_posterior(k_c=[1], n_c=[2, 2], k_a=[0], **HIGH)
    with pytest.raises(UsageError):
        setting_posterior(k_c=[1], n_c=[2], k_a=[0], n_a=[2], **HIGH)
    with pytest.raises(UsageError):
        setting_posterior(k_c=[1], n_c=[2], k_a=[0], draws=0, **HIGH)


def test_import_stays_light() -> None:
    code = (
        "import sys, abilene.inference; "
        "print([m for m in ('scipy.stats', 'xarray', 'polars', 'pydantic', 'arviz') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
