"""The command line, as a user meets it: exit codes, one JSON document on stdout, talk on stderr."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from _pipeline import hidden_profile

from abilene.rates import Rates
from abilene.records.files import write_record


def abilene(*args, cwd=None, env=None):
    return subprocess.run(
        [sys.executable, "-m", "abilene.cli.main", *map(str, args)],
        capture_output=True, text=True, cwd=cwd, env=env, timeout=120, check=False,
    )  # fmt: skip


def as_json(result):
    """The whole of stdout as one document without NaN."""
    assert result.returncode == 0, result.stderr

    def refuse(constant):
        raise AssertionError(f"{constant} in JSON")

    return json.loads(result.stdout, parse_constant=refuse)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    record = hidden_profile(Rates(0.6, 0.5, 1.0, 0.8), seed=1, per_level=6)
    write_record(record, folder / "rows.parquet")
    return folder


RATES = ("-c", ".3", "-a", ".5", "--rho", "1", "-r", ".8")
SMALL_PHASE = ("-n", "5", "-t", "2", "-a", ".5", "--rho", "1", "-r", ".8", "--points", "3", "--teams", "5")
SUMMARY = {"mean", "median", "lower", "upper", "identified", "reason"}


def test_estimate_keeps_the_contract(log):
    document = as_json(abilene("estimate", log, "--json"))
    assert document["schema"] == 1
    (entry,) = document["settings"]
    assert entry["tasks"] == 24
    assert set(entry["setting"]) >= {
        "benchmark",
        "model",
        "instruction",
        "reasoning",
        "intervention",
        "topology",
    }
    assert {"used", "dropped", "off_rule", "ties"} <= set(entry["rows"])
    assert set(entry["counts"]) == {
        "opportunities", "withheld", "internalized", "wrong_rows", "wrong_to_correct", "correct_rows",
        "correct_to_wrong",
    }  # fmt: skip
    for name in (
        "withholding",
        "internalization",
        "net_correction",
        "u",
        "v",
        "critical_withholding",
        "margin",
    ):
        assert set(entry[name]) == SUMMARY
    assert set(entry["accuracy"]) >= {"vote", "discussion", "gain"}
    assert set(entry["accuracy"]["gain"]) >= {"mean", "lower", "upper", "p_value"}
    assert entry["verdict"] in ("below", "above", "undecided", "unidentified")
    assert entry["simulated"] is True
    assert isinstance(entry["reasons"], list)
    assert 0.01 <= entry["temper"] <= 1


def test_the_same_seed_gives_the_same_numbers(log):
    first, again = (abilene("estimate", log, "--json", "--seed", 3).stdout for _ in range(2))
    assert first == again
    assert first != abilene("estimate", log, "--json", "--seed", 4).stdout


def test_no_temper_changes_the_flows_only(log):
    with_it, without = (
        as_json(abilene("estimate", log, "--json", *option))["settings"][0]
        for option in ((), ("--no-temper",))
    )
    assert without["temper"] == 1
    assert without["withholding"] == with_it["withholding"]


def test_simulated_results_are_labelled_for_people(log):
    result = abilene("estimate", log)
    assert "simulated agents" in result.stdout
    assert "verdict" in result.stdout
    assert "simulated agents" in abilene("audit", log).stdout


def test_audit(log):
    document = as_json(abilene("audit", log, "--json"))
    (entry,) = document["settings"]
    assert document["passes"] is True
    assert entry["rows"]["expected"] == entry["rows"]["used"] + sum(entry["rows"]["dropped"].values())
    assert entry["manipulation"]["outcome"] == "pass"


def test_convert_there_and_back_gives_the_same_estimate(log, tmp_path):
    before = as_json(abilene("estimate", log, "--json"))["settings"][0]
    as_json(abilene("convert", log, "--to", "events", "--out", tmp_path / "events", "--json"))
    as_json(abilene("convert", log, "--to", "table", "--out", tmp_path / "table.csv", "--json"))
    for path in (tmp_path / "events", tmp_path / "table.csv"):
        after = as_json(abilene("estimate", path, "--json"))["settings"][0]
        for name in ("rows", "counts", "withholding", "internalization"):
            assert after[name] == before[name], (path, name)


def test_predictions_from_an_estimate(log, tmp_path):
    saved = tmp_path / "posterior.nc"
    as_json(abilene("estimate", log, "--posterior", saved, "--json"))
    document = as_json(abilene("theory", "team", "--from", saved, "-c", 0, "-t", 6, "--json"))
    found = {p["scenario"]: p["gain"] for p in document["settings"][0]["predictions"]}
    assert list(found) == ["predicted, as measured", "withholding 0", "6 rounds", "all of these"]
    assert found["withholding 0"]["median"] > found["predicted, as measured"]["median"] + 0.05
    assert found["predicted, as measured"]["lower"] < found["predicted, as measured"]["upper"]


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ("thresholds -a .5 --rho 1 -r .8 -q 3", {"critical_withholding": 0.5454545455}),
        ("thresholds -a .5 --rho 1 -r .8", {"jump_withholding": 0.5419648432}),
        ("thresholds -a .5 --rho 1 -r .8 -q inf", {"jump_withholding": 0.25}),
        ("separatrix -c .7 -a .5 --rho 1 -r .8 -q 3", {"separatrix": 0.424356}),
        ("separatrix -c .1 -a .5 --rho 1 -r .8 -q 3", {"separatrix": 0}),
        ("team -n 5 -t 3 -c .3 -a .5 --rho 1 -r .8 --start 2", {"correct": 0.4680171830}),
        ("team -n 4 -t 1 -c .3 -a .5 --rho 1 -r .8 -q complete --start 2", {"correct": 0.2877}),
        ("team -n 5 -t 3 -c 0 -a .5 --rho 1 -r .8 -p .4", {"gain": 0.340, "vote": 0.31744}),
    ],
)  # fmt: skip
def test_theory(args, expected):
    document = as_json(abilene("theory", *args.split(), "--json"))
    for name, value in expected.items():
        assert document[name] == pytest.approx(value, abs=6e-4 if name == "gain" else 1e-6)


def test_team_has_vote_and_gain_with_p_only():
    document = as_json(abilene("theory", "team", *RATES, "--start", "2", "--json"))
    assert set(document) == {"correct", "tie", "beliefs_correct"}


def test_degenerate_thresholds_are_null_not_one():
    document = as_json(abilene("theory", "thresholds", *["-a", "0", "--rho", "1", "-r", ".5", "--json"]))
    assert document["kind"] == "degenerate"
    assert document["critical_withholding"] is None


def test_simulated_teams_become_a_log(tmp_path):
    path = tmp_path / "teams.parquet"
    rates = ["-c", ".6", "-a", ".4", "--rho", ".9", "-r", ".8", "-n", "5", "-p", ".4", "--replicates", "400"]
    document = as_json(abilene("theory", "simulate", *rates, "--out", path, "--json"))
    assert document["simulated"] is True
    entry = as_json(abilene("estimate", path, "--json"))["settings"][0]
    assert entry["simulated"] is True
    assert entry["withholding"]["lower"] < 0.6 < entry["withholding"]["upper"]
    assert entry["internalization"]["lower"] < 0.4 < entry["internalization"]["upper"]


def test_phase_in_parts(tmp_path):
    common = ["-n", "20", "-t", "10", "-a", ".5", "--rho", "1", "-r", ".8", "--points", "6", "--teams", "50"]
    for i in (0, 1):
        as_json(
            abilene("theory", "phase", *common, "--part", f"{i}/2", "--out", tmp_path / f"{i}.nc", "--json")
        )
    parts = [tmp_path / "0.nc", tmp_path / "1.nc"]
    document = as_json(
        abilene(
            "theory", "merge", *parts, "--out", tmp_path / "all.nc", "--figure", tmp_path / "p.svg", "--json"
        )
    )
    assert document["critical_withholding"] == pytest.approx(0.5454545)
    assert (tmp_path / "p.svg").read_text().startswith("<svg")


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        ("estimate nowhere", 1, "nowhere"),
        ("estimate", 2, "PATH"),
        ("convert nowhere --to rows --out x.csv", 2, "events or table"),
        ("convert nowhere --to table --out x.txt", 2, ".csv or .parquet"),
        ("theory thresholds -a 2 --rho 1 -r .8", 2, "from 0 to 1"),
        ("theory thresholds -a nan --rho 1 -r .8", 2, "from 0 to 1"),
        ("theory thresholds -a .5 --rho 1 -r .8 -q x", 2, "-q"),
        ("theory team -c .5 -a .5 --rho 1 -r .8", 2, "--start"),
        ("theory team -c .5 -a .5 --rho 1 --start 2", 2, "four rates"),
        ("theory team -c .5 -a .5 --rho 1 -r .8 --start 9", 2, "5 agents"),
        ("theory team -c .5 -a .5 --rho 1 -r .8 -q 5 -p .4", 2, "4"),
        ("theory team -n 1 -c .5 -a .5 --rho 1 -r .8 -q 1 -p .4", 2, "1"),
        ("theory team --from nowhere.nc", 1, "nowhere.nc"),
        ("theory simulate -c .5 -a .5 --rho 1 -r .8 -p .4 --graph nowhere.json", 2, "nowhere.json"),
        ("theory phase -a .5 --rho 1 -r .8 --out x.nc --part 3", 2, "--part"),
        ("theory phase -a .5 --rho 1 -r .8 --out x.png", 2, ".nc"),
        ("run hidden_profile --temperature nan", 2, "temperature"),
        ("run hidden_profile -M c=true", 2, "c must be"),
        ("run hidden_profile --informed 9", 2, "informed level"),
        ("run hiddenbench --informed 1 --data x.json", 2, "informed"),
        ("hum", 2, "hum"),
    ],
)
def test_bad_input_is_one_clear_error(args, code, words, tmp_path):
    result = abilene(*args.split(), cwd=tmp_path)
    assert result.returncode == code
    assert words in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_a_stranger_in_a_graph_file(tmp_path):
    path = tmp_path / "graph.json"
    path.write_text('{"0": [9]}')
    result = abilene(
        "theory",
        "simulate",
        *RATES,
        "-p",
        ".4",
        "-n",
        "3",
        "--graph",
        path,
    )
    assert result.returncode == 2
    assert "9" in result.stderr


def test_import_is_light():
    heavy = ("inspect_ai", "numba", "altair", "polars", "scipy")
    code = f"import abilene, sys; print([m for m in {heavy} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_version_and_help():
    assert abilene("--version").stdout.startswith("abilene ")
    text = abilene("--help").stdout
    for command in ("estimate", "audit", "convert", "theory"):
        assert command in text


def test_paths_with_brackets_are_text(log, tmp_path):
    odd = tmp_path / "o [red] ü[/x]"
    odd.mkdir(parents=True)
    saved = odd / "post[/red].nc"
    result = abilene("estimate", log, "--posterior", saved)
    assert result.returncode == 0, result.stderr
    assert "post[/red].nc" in result.stderr
    result = abilene(
        "theory",
        "phase",
        *SMALL_PHASE,
        "--out",
        odd / "p.nc",
    )
    assert "o [red] ü[/x]" in result.stdout
    result = abilene(
        "theory", "simulate", *RATES, "-p", ".4", "--replicates", "5", "--out", odd / "s[/red].csv"
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    "args",
    [
        ("theory", "simulate", *RATES, "-p", ".4", "--replicates", "5", "--out", "/proc/x.csv"),
        (
            "theory",
            "phase",
            *[
                "-n",
                "5",
                "-t",
                "2",
                "-a",
                ".5",
                "--rho",
                "1",
                "-r",
                ".8",
                "--points",
                "3",
                "--teams",
                "5",
                "--out",
                "/proc/x.nc",
            ],
        ),
        ("estimate", "LOG", "--posterior", "/proc/x.nc"),
        ("convert", "LOG", "--to", "table", "--out", "/proc/x.csv"),
        ("convert", "LOG", "--to", "events", "--out", "/proc/xx"),
        ("run", "hidden_profile", "--tasks", "1", "--out", "/proc/xx"),
    ],
)
def test_a_path_that_cannot_be_written_is_one_clear_error(log, args):
    result = abilene(*[log if a == "LOG" else a for a in args])
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    assert "/proc" in result.stderr


def test_a_reader_that_goes_away_is_no_error(log):
    code = f"{sys.executable} -m abilene.cli.main audit {log} | true; exit ${{PIPESTATUS[0]}}"
    assert subprocess.run(["bash", "-c", code], check=False, capture_output=True, timeout=60).returncode == 0


def test_agents_that_only_others_name_are_members(tmp_path):
    path = tmp_path / "graph.json"
    path.write_text('{"0": [1, 2], "1": [0]}')
    document = as_json(abilene("theory", "simulate", *RATES, "-p", ".4", "--graph", path, "--json"))
    assert document["replicates"] == 10_000


def test_one_team_is_not_certainty():
    result = abilene("theory", "simulate", *RATES, "-p", ".4", "--replicates", "1")
    assert "0.000 to 0.793" in result.stdout or "0.207 to 1.000" in result.stdout


def test_null_thresholds_come_with_a_reason():
    document = as_json(
        abilene("theory", "separatrix", *RATES[2:6], "-c", "1", "-r", ".5", "-q", "1", "--json")
    )
    assert document["separatrix"] is None
    assert document["reason"]
    assert as_json(abilene("theory", "thresholds", *RATES[2:], "-q", "1", "--json"))["reason"]
