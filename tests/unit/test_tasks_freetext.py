import re
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abilene.tasks.freetext import canonical, lenient_match, normalise, same_opinion, strict_match


def published_normalisation(text):
    """The usual four steps of answer normalisation in question answering, written out independently."""
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


@pytest.mark.parametrize(
    "text",
    [
        "The Pittsburgh Pirates",
        "Hudson's Bay",
        "16th - century",
        "$72,641",
        "48%",
        "A.P.J. Abdul Kalam",
        "Chiang Hsiao-wu",
        "  for the conclave in Rome. ",
        "French residents who chose to remain in the colony would be given freedom",
        "11 February 1929",
    ],
)
def test_plain_answers_normalise_as_usual(text):
    assert normalise(text) == published_normalisation(text)


@given(st.text())
@settings(max_examples=500)
def test_normalising_twice_changes_nothing(text):
    once = normalise(text)
    assert normalise(once) == once
    assert once == " ".join(once.split())


@given(st.text(alphabet="athe 12.,-'A−–", max_size=12))
@settings(max_examples=500)
def test_normalising_twice_changes_nothing_where_the_exceptions_meet(text):
    assert normalise(normalise(text)) == normalise(text)


@pytest.mark.parametrize(
    ("a", "b"),
    [("1.5", "15"), ("2,5", "25"), ("-3", "3"), ("Hepatitis A", "Hepatitis"), ("Formula 1", "Formula One")],
)
def test_different_answers_stay_different(a, b):
    assert normalise(a) != normalise(b)
    assert not same_opinion(a, b)
    assert not strict_match(a, b)


def test_two_aliases_are_one_opinion_but_only_if_both_are():
    names = ["Pittsburgh Pirates", "Orioles", "Mets"]
    assert same_opinion("the orioles", "METS.", names)
    assert not same_opinion("the orioles", "Yankees", names)
    assert not same_opinion("the orioles", "METS.")
    assert same_opinion("Yankees!", "the yankees", names)


@pytest.mark.parametrize("blank", ["", "  ", "?!", "..."])
def test_an_empty_answer_agrees_with_nothing_and_is_never_correct(blank):
    assert not same_opinion(blank, blank)
    assert not same_opinion(blank, "x", ["x", blank])
    assert not strict_match(blank, "?")
    assert not lenient_match(blank, "!")


@given(
    st.sampled_from(["Mets", "the mets", "NY Mets", "Yankees", "yankees!", "A", "", "1.5", "15", "?"])
    | st.text()
)
@settings(max_examples=300)
def test_canonical_strings_are_equal_exactly_where_opinions_are(text):
    answer, aliases = "New York Mets", ["Mets", "NY Mets"]
    for other in ("mets", "Yankees", "15"):
        one = canonical(text, answer, aliases) == canonical(other, answer, aliases)
        assert one == same_opinion(text, other, [answer, *aliases])
    assert (canonical(text, answer, aliases) == answer) == strict_match(text, answer, aliases)


SAME = [
    ("February 11, 1929", "11 February 1929"),
    ("1929-02-11", "11 February 1929"),
    ("Feb. 11th, 1929", "11 February 1929"),
    ("the 11th of February 1929", "11 February 1929"),
    ("25/12/1990", "December 25, 1990"),
    ("12/25/1990", "December 25, 1990"),
    ("07/07/1990", "7 July 1990"),
    ("1990-05", "May 1990"),
    ("05/1990", "May 1990"),
    ("in May 1990", "May 1990"),
    ("4 July", "July 4th"),
    ("sixteenth century", "16th - century"),
    ("3rd largest", "third-largest"),
    ("twenty-first century", "21st century"),
    ("forty-eight percent", "48%"),
    ("48 per cent", "48%"),
    ("72641 dollars", "$72,641"),
    ("US dollars 72641", "$72,641"),
    ("one hundred and five", "105"),
    ("1.5 million", "1,500,000"),
    ("two million three hundred thousand", "2300000"),
    ("three thousand and twelve", "3012"),
    ("one hundredth", "100th"),
    ("Formula 1", "Formula One"),
    ("Hewlett-Packard", "Hewlett Packard"),
    ("Sao Paulo", "São Paulo"),
    ("Simon and Schuster", "Simon & Schuster"),
]
DIFFERENT = [
    ("in 1929", "11 February 1929"),
    ("February 1929", "11 February 1929"),
    ("03/04/1990", "3 April 1990"),
    ("03/04/1990", "March 4, 1990"),
    ("31/31/1990", "31 1990"),
    ("1984", "1985"),
    ("21", "2 1"),
    ("two three", "23"),
    ("second", "2"),
    ("48", "49"),
    ("-5", "5"),
    ("1.5", "15"),
    ("2,5", "25"),
    ("3.5 million", "35 million"),
    ("Stanley Cup", "Stanley"),
    ("May", "March"),
]


@pytest.mark.parametrize(("a", "b"), SAME)
def test_another_form_of_the_same_content_matches_leniently_only(a, b):
    assert lenient_match(a, b)
    assert lenient_match(b, a)
    assert lenient_match(a, "something else", [b])
    assert not strict_match(a, b)


@pytest.mark.parametrize(("a", "b"), DIFFERENT)
def test_other_content_never_matches(a, b):
    assert not lenient_match(a, b)
    assert not lenient_match(b, a)


ONES = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")


def words(n):
    """A number in English, by recursion from the other side than the reader under test."""
    if n < 20:
        return ONES[n]
    if n < 100:
        return TENS[n // 10 - 2] + (f"-{ONES[n % 10]}" if n % 10 else "")
    for size, name in ((10**6, "million"), (1000, "thousand"), (100, "hundred")):
        if n >= size:
            rest = n % size
            link = " and " if rest < 100 else " "
            return f"{words(n // size)} {name}" + (link + words(rest) if rest else "")
    raise AssertionError


@given(st.integers(0, 10**9 - 1))
@settings(max_examples=300)
def test_every_number_in_words_is_read(n):
    assert lenient_match(words(n), f"{n:,}")
    assert lenient_match(f"{words(n)} days", f"{n} days")
    assert not lenient_match(words(n), str(n + 1))


@given(st.dates())
def test_every_date_is_one_in_all_its_forms_and_no_other(date):
    month = date.strftime("%B")
    forms = [
        f"{date.day} {month} {date.year:04d}",
        f"{month} {date.day}, {date.year:04d}",
        f"{month[:3]}. {date.day}, {date.year:04d}",
        date.isoformat(),
    ]
    assert all(lenient_match(a, b) for a in forms for b in forms)
    assert not any(lenient_match(f, f"{date.day} {month} {date.year + 1:04d}") for f in forms)


@given(st.text(max_size=30), st.text(max_size=30))
@settings(max_examples=300)
def test_strict_implies_lenient_and_both_are_symmetric(a, b):
    assert not strict_match(a, b) or lenient_match(a, b)
    assert strict_match(a, b) == strict_match(b, a)
    assert lenient_match(a, b) == lenient_match(b, a)
