"""Entry point of the command `abilene`."""

from __future__ import annotations

import sys
import warnings

import typer

import abilene
from abilene.cli import commands
from abilene.errors import AbileneError

app = typer.Typer(
    name="abilene",
    help="Measure whether a team of LLM agents speaks up, and whether its discussion beats a vote.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
commands.register(app)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"abilene {abilene.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Measure whether a team of LLM agents speaks up, and whether its discussion beats a vote."""


def main() -> None:
    """Run the command line. Exit codes: 0 done, 1 the input or the run has a fault, 2 usage."""
    warnings.showwarning = _warn
    try:
        app()
    except AbileneError as e:
        print(f"abilene: {e}", file=sys.stderr)
        raise SystemExit(e.exit_code) from None
    except SystemExit as e:
        # The reader of our output went away (a pager, head): not an error of ours. Typer makes a 1 of it.
        if isinstance(e.__context__, BrokenPipeError):
            sys.stderr.close()
            raise SystemExit(0) from None
        if e.code == 130:
            _interrupted()
        raise
    except OSError as e:
        where = e.filename if e.filename is not None else "output"
        print(
            f"abilene: {where}: {e.strerror or e}. Check the path and whether it can be written.",
            file=sys.stderr,
        )
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        _interrupted()
        raise SystemExit(130) from None


_SAID: set[str] = set()


def _warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: object = None,
    line: object = None,
) -> None:
    """A warning for people: what is said, once, and without a line of our source."""
    if str(message) not in _SAID:
        _SAID.add(str(message))
        print(f"warning: {message}", file=sys.stderr)


def _interrupted() -> None:
    print(
        "abilene: stopped; what is finished is kept, and the same command goes on from there", file=sys.stderr
    )


if __name__ == "__main__":
    main()
