import re

import pytest

from abilene.evals.grammar import gbnf
from abilene.team.call import Completion, Line
from abilene.team.replies import read_reply


def as_regex(grammar: str) -> re.Pattern[str]:
    """A GBNF grammar of the flat kind used here as a regular expression: an independent reading of the syntax."""
    rules = dict(line.split(" ::= ", 1) for line in grammar.strip().splitlines())

    def translate(body: str) -> str:
        out, i = "", 0
        while i < len(body):
            if body[i] == '"':
                j = i + 1
                text = ""
                while body[j] != '"':
                    if body[j] == "\\":
                        j += 1
                        text += {"n": "\n", "t": "\t"}.get(body[j], body[j])
                    else:
                        text += body[j]
                    j += 1
                out, i = out + re.escape(text), j + 1
            elif body[i] == "[":
                j = body.index("]", i + 2)
                out, i = out + body[i : j + 1], j + 1
            elif body[i].isalpha():
                name = re.match(r"[A-Za-z0-9-]+", body[i:]).group()
                out, i = out + f"(?:{translate(rules[name])})", i + len(name)
            else:
                out, i = out + ("" if body[i] == " " else body[i]), i + 1
        return out

    return re.compile(translate(rules["root"]), re.DOTALL)


FORMATS = [
    (Line("COUNT", counts=("Ada Lind", "Bo [Falk]")), Line("ANSWER", ("Ada Lind", "Bo [Falk]"))),
    (
        Line("PRIVATE", ('say "no"', "back\\slash")),
        Line("PUBLIC", ("Mr. X", "Mr. X's son")),
        Line("SHARE", ("P1", "NONE")),
    ),
]


@pytest.mark.parametrize("lines", FORMATS)
def test_exactly_the_format_is_admitted_and_it_reads_well(lines):
    pattern = as_regex(gbnf(lines))

    def reply(pick):
        out = []
        for line in lines:
            value = " ".join(f"{n}=3" for n in line.counts) if line.counts else line.values[pick]
            out.append(f"{line.tag}: {value}")
        return "\n".join(out)

    for pick in (0, -1):
        assert pattern.fullmatch(reply(pick)), gbnf(lines)
        assert all(
            r.value is not None or r.status == "ok"
            for r in read_reply(Completion(reply(pick)), lines).values()
        )
    assert not pattern.fullmatch(reply(0) + "x")
    assert not pattern.fullmatch("Sure! " + reply(0))


def test_counts_are_bounded():
    pattern = as_regex(gbnf(FORMATS[0]))
    assert not pattern.fullmatch("COUNT: Ada Lind=33333333 Bo [Falk]=1\nANSWER: Ada Lind")
