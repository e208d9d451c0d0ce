"""What must hold for every reply, whatever the text."""

import json
import re
import time

import pytest
from _data import data_file
from hypothesis import given, settings
from hypothesis import strategies as st

from abilene.records.schema import ANSWERED, Status
from abilene.tasks.freetext import normalise
from abilene.team.call import Completion, Line
from abilene.team.replies import (
    clean,
    read_counts,
    read_line,
    read_reply,
    read_share,
    strip_thought,
)

TAGS = st.sampled_from(["ANSWER", "PRIVATE", "PUBLIC"])
STOPS = st.sampled_from(["stop", "length", "refusal", "other"])

# Text that looks like replies: real parts between arbitrary characters.
PARTS = st.sampled_from(
    [
        "PUBLIC:", "public：", "**PRIVATE:** ", "ANSWER: ", "SHARE: ", "COUNT: ", "<think>", "</think>", "[THINK]",
        "<|channel|>analysis", "<|channel|>final", "\n", "\r\n", " ", "**", "`", "```json\n", "{", "}", '"', "'", "’",
        "Harper", "Quayle", "Mr. X", "Mr. X's son", "East Town", "not ", " or ", "P1", "P2", "NONE", "<", ">", "|",
        "10", "-", ".", "=5 ", "I'm sorry, but I can't help", "\\_", "&amp;", "\x00", "\u2028", "\u200f", "unknown",
    ]
)  # fmt: skip
REPLIES = st.lists(st.one_of(PARTS, st.text(max_size=6)), max_size=25).map("".join)

# Options are single lines without surrounding space, and hold no mark of a thought block.
LINE_TEXT = st.text(
    st.characters(exclude_characters="\r\n", exclude_categories=("Cs",)), min_size=1, max_size=12
).map(str.strip)
TRICKY = st.sampled_from(
    [
        "A", "a", "(A)", "**A**", "A.", "Mr. X", "Mr. X's son", "York", "New York", ".*", "a|b", "[x]", "$^", "\\d+",
        "PUBLIC: A", "ANSWER:", "<A or B>", "NONE", "not A", "10", "1", "-1", "1.0", "C++", "C#", "C", "N/A", "unknown",
        "Site A (x)", "Site B (y)", "the end", "end", "&amp;", "&", "I'm sorry, but I can't help", "`", "*", "_", "(",
        "{}", "Straße", "STRASSE", "é", "e\u0301", "東", "\u200b", "\x00", "\x1e",
    ]
)  # fmt: skip
OPTION = st.one_of(TRICKY, LINE_TEXT).map(str.strip).filter(lambda o: o and strip_thought(o) == (o, False))
OPTIONS = st.lists(OPTION, min_size=1, max_size=6, unique=True)


@settings(max_examples=400)
@given(REPLIES, TAGS, OPTIONS, STOPS)
def test_never_raises_and_never_invents_an_option(text, tag, options, stop):
    reading = read_line(text, tag, options, stop)
    assert reading.value is None or reading.value in options
    assert (reading.value is not None) == (reading.status in ANSWERED)
    assert reading.status is not Status.FAILED


@settings(max_examples=300)
@given(REPLIES, TAGS, STOPS)
def test_free_text_never_raises_and_comes_from_the_reply(text, tag, stop):
    reading = read_line(text, tag, (), stop)
    assert (reading.value is not None) == (reading.status in ANSWERED)
    if reading.value is not None:
        assert reading.value.strip()
        words = re.findall(r"\w+", reading.value)
        assert all(word in text or "{" in text for word in words)


@settings(max_examples=300)
@given(REPLIES)
def test_the_other_readers_never_raise(text):
    rest, unclosed = strip_thought(text)
    assert strip_thought(rest)[0].split() == rest.split() or unclosed or "think" in text.casefold()
    share = read_share(text, ["P1", "P2"], ["P2"])
    assert share.id in (None, "P1")
    assert (share.id is None) == (share.status not in ("ok", "several"))
    counts = read_counts(text, ["Harper", "Quayle"])
    assert counts is None or (list(counts) == ["Harper", "Quayle"] and min(counts.values()) >= 0)
    lines = (
        Line("COUNT", counts=("Harper", "Quayle")),
        Line("PRIVATE", ("Harper", "Quayle")),
        Line("PUBLIC", ("Harper", "Quayle")),
        Line("SHARE", ("P1", "P2", "NONE")),
    )
    for reading in read_reply(Completion(text), lines).values():
        assert (reading.value is not None) == (reading.status in ANSWERED)


@settings(max_examples=500)
@given(OPTIONS, TAGS, st.data())
def test_the_strict_format_always_reads_ok_and_as_itself(options, tag, data):
    option = data.draw(st.sampled_from(options))
    assert read_line(f"{tag}: {option}", tag, options) == read_line(f"x\n{tag}: {option}\n", tag, options)
    reading = read_line(f"{tag}: {option}", tag, options)
    assert (reading.value, reading.status) == (option, Status.OK)


@settings(max_examples=300)
@given(REPLIES, TAGS, st.one_of(st.just([]), OPTIONS))
def test_reading_what_was_read_gives_the_same(text, tag, options):
    first = read_line(text, tag, options)
    if first.value is not None:
        again = read_line(f"{tag}: {first.value}", tag, options)
        assert (again.value, again.status) == (first.value, Status.OK)


@settings(max_examples=100)
@given(REPLIES, OPTIONS, STOPS)
def test_a_failed_call_always_reads_failed(text, options, stop):
    lines = (
        Line("COUNT", counts=tuple(options)),
        Line("PUBLIC", tuple(options)),
        Line("SHARE", ("P1", "NONE")),
    )
    for reading in read_reply(Completion(text, stop=stop, error="timeout"), lines).values():
        assert (reading.value, reading.status) == (None, Status.FAILED)
    assert read_line(text, "PUBLIC", options, stop, "timeout").status is Status.FAILED


@settings(max_examples=200)
@given(st.text(max_size=30))
def test_cleaning_twice_changes_nothing(text):
    assert clean(clean(text)) == clean(text)


@settings(max_examples=300)
@given(REPLIES, TAGS)
def test_a_free_answer_that_was_read_has_an_opinion(text, tag):
    """Whatever the reader takes for an answer has something left after normalising."""
    value = read_line(text, tag).value
    assert value is None or normalise(value)


@settings(max_examples=200)
@given(st.lists(st.integers(0, 999), min_size=2, max_size=2))
def test_counts_in_the_strict_format_always_read(numbers):
    a, b = numbers
    assert read_counts(f"COUNT: Harper={a} Quayle={b}\nANSWER: Harper", ["Harper", "Quayle"]) == {
        "Harper": a,
        "Quayle": b,
    }


@settings(max_examples=200)
@given(st.integers(1, 60), st.data())
def test_every_note_id_is_itself(n, data):
    ids = [f"P{i}" for i in range(1, n + 1)]
    one = data.draw(st.sampled_from(ids))
    assert (read_share(f"SHARE: {one}", ids).id, read_share(f"SHARE: {one}", ids).status) == (one, "ok")
    assert read_share(f"SHARE: {one}", ids, [one]).status == "repeated"
    assert read_share(f"SHARE: {one}", [i for i in ids if i != one]).status == "unknown"


@pytest.mark.parametrize(
    "text",
    [
        "<think>" * 40_000,
        "</think>" * 40_000,
        "PUBLIC: Harper\n" * 20_000,
        "PUBLIC: " + "Harper or " * 20_000,
        "PUBLIC: " + "(" * 100_000,
        "PUBLIC: " + "'\"" * 50_000 + "x",
        "*" * 200_000 + "PUBLIC: Harper",
        "PUBLIC: " + " ".join(f"P{i}" for i in range(20_000)),
        "SHARE: " + ", ".join(f"P{i}" for i in range(20_000)) + "!",
        "SHARE: " + "P1 " * 20_000 + "x!",
        "COUNT: " + "Harper=1 " * 20_000,
        "{" * 50_000 + "}" * 50_000,
        "PUBLIC: sorry" + " " * 100_000 + "x",
        "PUBLIC: " + "I would still " * 20_000,
        "PUBLIC: " + "&amp;" * 40_000,
        "PUBLIC: " + "word " * 40_000 + "Harper",
    ],
    ids=lambda t: t[:16],
)
def test_a_huge_reply_is_read_in_little_time(text):
    """Under 2 CPU-s each (measured: most under 0.1), so no pattern backtracks without bound."""
    start = time.process_time()
    for options in (("Harper", "Quayle"), ()):
        read_line(text, "PUBLIC", options)
    read_share(text, ["P1", "P2"])
    read_counts(text, ["Harper", "Quayle"])
    assert time.process_time() - start < 2


def test_all_published_options_read_back_as_themselves():
    """Every option of the 65 tasks in five shapes; none may be read as another."""
    entries = json.loads(data_file("hiddenbench.json").read_text("utf-8"))
    seen = 0
    for e in entries:
        options = e["possible_answers"]
        for option in options:
            for text in (option, option.lower(), f"{option}.", f"**{option}**", f'"{option.upper()}"'):
                reading = read_line(f"Reasons first.\nPUBLIC: {text}\nSHARE: P1", "PUBLIC", options)
                assert (reading.value, reading.status) == (option, Status.OK), (e["id"], text)
                seen += 1
            for text in (f"I choose {option}.", f"{option}, because it is safe", f"My answer is {option}"):
                reading = read_line(f"PUBLIC: {text}", "PUBLIC", options)
                assert (reading.value, reading.status) == (option, Status.OK), (e["id"], text)
            for other in options:
                if other != option:
                    reading = read_line(f"PUBLIC: {option} or {other}", "PUBLIC", options)
                    assert reading.status is Status.AMBIGUOUS, (e["id"], option, other)
    assert seen == 5 * sum(len(e["possible_answers"]) for e in entries)
