"""`abilene interventions`: what can be chosen by name."""

from __future__ import annotations

import sys

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


def interventions(json: Json = False, seed: Seed = 0) -> None:
    """List the interventions of `abilene run --intervention`."""
    from abilene.team.interventions import INTERVENTIONS

    if json:
        print_json({"interventions": {i.name: i.description for i in INTERVENTIONS.values()}})
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    for i in INTERVENTIONS.values():
        table.add_row(i.name, i.description)
    out.print(table)
