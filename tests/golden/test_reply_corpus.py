"""Awkward replies and the reading each must get. Add a line to replies.jsonl whenever a model invents a new one."""

import json
from pathlib import Path

import pytest

from abilene.records.schema import ANSWERED, Status
from abilene.team.call import Completion, Line
from abilene.team.replies import read_counts, read_line, read_reply, read_share

CORPUS = [
    json.loads(line) for line in Path(__file__).with_name("replies.jsonl").read_text("utf-8").splitlines()
]
ANSWERS = [case for case in CORPUS if case["tag"] not in ("SHARE", "COUNT")]


def name(case):
    return f"{case['tag']}: {case['why']}"


def completion(case):
    return Completion(case["text"], stop=case.get("stop", "stop"), error=case.get("error"))


def test_the_corpus_covers_every_status():
    assert len(CORPUS) >= 120
    assert {case["status"] for case in ANSWERS} == set(Status) - {Status.NOT_ASKED}
    assert {case["status"] for case in CORPUS if case["tag"] == "SHARE"} == {
        "none", "ok", "several", "unknown", "repeated", "missing",
    }  # fmt: skip
    texts = [
        json.dumps({k: v for k, v in case.items() if k not in ("why", "value", "status")}) for case in CORPUS
    ]
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("case", ANSWERS, ids=name)
def test_answer(case):
    reading = read_line(completion(case), case["tag"], case["options"])
    assert (reading.value, reading.status) == (case["value"], case["status"])
    assert (reading.value is not None) == (reading.status in ANSWERED)
    assert reading.flagged == (reading.status == "multiple")
    again = read_reply(completion(case), (Line(case["tag"], tuple(case["options"])),))
    assert again == {case["tag"]: reading}


@pytest.mark.parametrize("case", [c for c in CORPUS if c["tag"] == "SHARE"], ids=name)
def test_disclosure(case):
    reading = read_share(case["text"], case["options"], case["shared"])
    assert (reading.id, reading.status) == (case["value"], case["status"])


@pytest.mark.parametrize("case", [c for c in CORPUS if c["tag"] == "COUNT"], ids=name)
def test_counts(case):
    assert read_counts(case["text"], case["options"]) == case["value"]


def test_the_order_of_the_options_does_not_matter():
    for case in ANSWERS:
        reading = read_line(completion(case), case["tag"], case["options"][::-1])
        assert (reading.value, reading.status) == (case["value"], case["status"]), case
