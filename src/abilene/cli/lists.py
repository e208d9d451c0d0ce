"""`abilene interventions` and `abilene prompts`: what can be chosen by name."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from abilene.cli.options import Json, Seed
from abilene.cli.output import out, print_json


def prompts(json: Json = False, seed: Seed = 0) -> None:
    """Print the built-in prompt pack, to start one of your own from (abilene run --prompts FILE)."""
    from importlib import resources

    text = (resources.files("abilene.team") / "packs" / "abilene.toml").read_text(encoding="utf-8")
    if json:
        print_json({"pack": text})
    else:
        sys.stdout.write(text)


def interventions(
    pack: Annotated[
        Path | None, typer.Option("--prompts", help="Prompt pack whose instructions are listed.")
    ] = None,
    json: Json = False,
    seed: Seed = 0,
) -> None:
    """List what `abilene run` takes as --intervention and, by name, as --instruction."""
    from abilene.team.interventions import INTERVENTIONS
    from abilene.team.wording import load_pack

    instructions = load_pack(pack).instructions
    if json:
        print_json(
            {
                "interventions": {i.name: i.description for i in INTERVENTIONS.values()},
                "withholding_set": {
                    i.name: i.withholding for i in INTERVENTIONS.values() if i.withholding is not None
                },
                "instructions": dict(instructions),
            }
        )
        return
    out.print("--intervention", style="bold")
    _list({i.name: i.description for i in INTERVENTIONS.values()})
    out.print("\n--instruction (for everybody, a share of the agents, or single ones)", style="bold")
    _list({name: " ".join(text.split()) or "(nothing is added)" for name, text in instructions.items()})


def _list(entries: dict[str, str]) -> None:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column()
    for name, text in entries.items():
        table.add_row(name, text)
    out.print(table)
