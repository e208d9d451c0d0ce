"""Scripted candidates of known quality for the task factory, and who answers them."""

import json
import re

from abilene.tasks.factory import Recipe, Template
from abilene.tasks.structure import Candidate
from abilene.team.call import Completion


def candidate(k: int, n: int = 4, **changes) -> Candidate:
    """A sound task; facts of different k have no content word in common."""
    made = {
        "name": f"task{k}",
        "description": f"Quest{k} question. Choose Ash{k}, Birch{k} or Cedar{k}.",
        "shared": (f"Ash{k} s{k}a s{k}b s{k}c.", f"Birch{k} s{k}d s{k}e.", f"Cedar{k} s{k}f s{k}g."),
        "clues": tuple(f"Clue{k}x{i} c{k}x{i}a c{k}x{i}b c{k}x{i}c." for i in range(n)),
        "options": (f"Ash{k}", f"Birch{k}", f"Cedar{k}"),
        "answer": f"Cedar{k}",
    }
    return Candidate(**{**made, **changes})


def text(task: Candidate) -> str:
    entry = task.to_entry(0)
    del entry["id"]
    return json.dumps(entry)


#: What the scripted generator writes, by kind: a sound task unless the kind says otherwise.
def reply(kind: str, k: int) -> str:
    good = text(candidate(k))
    match kind:
        case "prose":
            return "I would rather not write a task."
        case "broken":
            return good[:-20]
        case "twoTasks":
            return good + "\n" + text(candidate(k + 500))
        case "noClues":
            return good.replace("hidden_information", "secret_information")
        case "tells":
            task = candidate(k)
            return text(candidate(k, clues=(*task.clues[:3], f"Cedar{k} is the right choice.")))
        case "threeClues":
            return text(candidate(k, n=3))
        case "copy":  # candidate 1 again, with other names for everything that has one
            task = candidate(1)
            swap = {f"{w}1": f"{w}{k}" for w in ("Ash", "Birch", "Cedar")}
            made = re.sub("|".join(swap), lambda m: swap[m.group()], text(task))
            return made.replace('"task1"', f'"task{k}"')
        case "fenced":
            return f"Here it is:\n```json\n{good}\n```\nGood luck with {{it}}!"
        case "thought":
            return f'<think>First {{"possible_answers": 1}}</think>\n{good}'
    return good


class Scripted:
    """Generator and answerer. Candidates are known by the number in their description."""

    def __init__(self, kinds: list[str], fail: set[str] = frozenset()) -> None:
        self.kinds, self.fail = kinds, fail
        self.generated: list[str] = []
        self.answered: list[str] = []
        self.seen: dict[str, int] = {}

    def recipe(self, **options) -> Recipe:
        topics = tuple(f"<{k}:{kind}>" for k, kind in enumerate(self.kinds, start=1))
        return Recipe(template=Template("test", "{topic} {clues} {options}", topics, "t"), **options)

    async def generate(self, prompt: str) -> str:
        self.generated.append(prompt)
        k, kind = re.search(r"<(\d+):(\w+)>", prompt).groups()
        if kind == "gone":
            raise TimeoutError("no reply")
        return reply(kind, int(k))

    async def answer(self, system: str, user: str) -> Completion:
        self.answered.append(user)
        k = int(re.search(r"Quest(\d+)", user).group(1))
        kind = self.kinds[k - 1]
        held = sorted({int(i) for i in re.findall(r"Clue\d+x(\d+)", user)})
        full = len(held) > 1
        view = f"{k} {held}"
        self.seen[view] = turn = self.seen.get(view, 0) + 1
        right = full
        match kind:
            case "hard":
                right = False
            case "easy":
                right = True
            case "leaky":
                right = full or held == [3]
            case "border":  # 8 of 10 with all facts; 2 of 10 with one agent's part, two different agents
                right = turn > 2 if full else (turn == 1 and held in ([0], [1]))
            case "vague":  # 7 of 9 readable with all facts, which is less than .80
                if full and turn == 1:
                    return Completion("Hard to say.")
                right = full and turn > 3
            case "quiet":  # 8 of 8 readable, and 2 that are not: kept
                if full and turn <= 2:
                    return Completion("Hard to say.")
            case "mute":
                if not full:
                    return Completion("Hard to say.")
            case "down":
                if full and turn == 1 and "down" in self.fail:
                    return Completion("", stop="other", error="rate limit")
        return Completion(f"ANSWER: {'Cedar' if right else 'Ash'}{k}")
