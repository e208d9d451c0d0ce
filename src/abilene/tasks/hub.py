"""Benchmarks' data on the Hugging Face hub, each file at a fixed revision and with the hash of its content.

Nothing else in the package knows a repository's name. A file given by the user takes the place of all of it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from abilene.errors import InputError, MissingExtraError, UsageError

Kind = Literal["dataset", "model", "space"]
"""Kinds of repositories on the hub."""


@dataclass(frozen=True, slots=True)
class HubFile:
    """One file on the hub.

    Parameters
    ----------
    repo : str
        Repository, ``owner/name``.
    filename : str
        Path inside the repository.
    revision : str
        Commit, all 40 hex digits: the hub takes no abbreviation, and a branch may move.
    sha256 : str, optional
        Hash of the content, where it is known.
    licence : str
        Licence of the data.
    kind : str
        ``"dataset"``, ``"model"`` or ``"space"``.
    """

    repo: str
    filename: str
    revision: str
    sha256: str | None = None
    licence: str = ""
    kind: Kind = "dataset"


#: The 65 published tasks.
HIDDENBENCH = HubFile(
    "YuxuanLi1225/HiddenBench",
    "benchmark.json",
    "1e3c25b1fd798c6717f4df0463edd3825c8e37f9",
    "2815afffca4e470d1dfbc81e625160447df1109ce371968181c9e1e6b90443a3",
    "MIT",
)
#: The 2,417 answerable questions of the development split (the test split has no published answers).
MUSIQUE = HubFile(
    "dgslibisey/MuSiQue",
    "musique_ans_v1.0_dev.jsonl",
    "c8f4f8c9465fb69d31a8eae894c3fd509c4ca321",
    "15fa63794d18a94ce12411aca6e2327e65b6e83b0b1490efab3f1962e48abf3b",
    "CC BY 4.0",
)
#: The 5,383 pairs of the test split.
MEDEINST = HubFile(
    "zhui711/MedEinst",
    "test.jsonl",
    "354f4b527e764a8f2bebea8f71be55e0a6966402",
    "b6b688fa41f788c17cdbf5076b5215782c9eb00efec1a3d3384c002836550a57",
    "CC BY 4.0",
)


def hub_file(
    repo: str, filename: str, revision: str, kind: Kind = "dataset", *, sha256: str | None = None
) -> Path:
    """Local copy of a file on the hub, downloaded once and then taken from the hub's cache.

    Parameters
    ----------
    repo : str
        Repository, ``owner/name``.
    filename : str
        Path inside the repository.
    revision : str
        Commit, all 40 hex digits.
    kind : str
        ``"dataset"``, ``"model"`` or ``"space"``.
    sha256 : str, optional
        What the content must hash to, 64 hex digits.

    Returns
    -------
    Path
        The file in the cache of huggingface_hub (HF_HOME moves it).

    Raises
    ------
    UsageError
        The revision is not a full commit.
    MissingExtraError
        huggingface_hub is not installed.
    InputError
        The file cannot be had (no network, no such file, ...) or is not the expected one. The message says how
        to go on with a file on disk.
    """
    if len(revision) != 40 or not set(revision) <= set("0123456789abcdef"):
        raise UsageError(
            f"revision {revision!r} of {repo}: give the full commit, 40 hex digits; a branch or tag can change."
        )
    place = f"{repo}/{filename} at {revision[:12]}"
    try:
        from huggingface_hub import hf_hub_download
    except ImportError as e:
        raise MissingExtraError(
            "hub", f"Loading {place} from the Hugging Face hub (--data FILE works without it)"
        ) from e
    try:
        path = Path(hf_hub_download(repo, filename, revision=revision, repo_type=kind))
    # The client lets errors of three HTTP libraries through, changing with its version, beside its own.
    except Exception as e:
        told = _told(e)
        # Where there was no response the client says only that something happened; what it was is in the cause.
        if e.__cause__ is not None and getattr(e, "response", None) is None:
            told += f"; {_told(e.__cause__)}"
        raise InputError(
            place,
            f"cannot be had from the Hugging Face hub ({told})",
            "Check the network, or give the file yourself with --data FILE.",
        ) from e
    if sha256 is not None:
        found = _sha256(path)
        if found != sha256:
            raise InputError(
                path,
                f"its content hashes to {found[:12]}... instead of {sha256[:12]}..., so it is not {place}",
                "Delete it and try again, or give a file you trust with --data FILE.",
            )
    return path


def local_or_hub(path: str | Path | None, source: HubFile) -> Path:
    """The file that the user gave, else the one on the hub.

    Raises
    ------
    MissingExtraError, InputError
        As `hub_file`.

    Examples
    --------
    >>> local_or_hub("mine.jsonl", MUSIQUE).name
    'mine.jsonl'
    """
    if path is not None:
        return Path(path)
    return hub_file(source.repo, source.filename, source.revision, source.kind, sha256=source.sha256)


def _told(error: BaseException) -> str:
    reason = " ".join(str(error).split())
    return f"{type(error).__name__}: {reason[:200] or type(error).__name__}"


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as f:
            return hashlib.file_digest(f, "sha256").hexdigest()
    except OSError as e:
        raise InputError(path, f"cannot be read ({e.strerror})", "Check the file.") from e
