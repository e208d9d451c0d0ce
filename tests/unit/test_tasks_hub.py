"""No test reaches the hub: the client is replaced, and sockets are off anyway."""

import hashlib
import sys
import types

import pytest

from abilene.errors import InputError, MissingExtraError, UsageError
from abilene.tasks import hub, medeinst, musique

REVISION = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def client(monkeypatch):
    """A stand-in for huggingface_hub: answers with `client.answer`, a path or an exception."""
    module = types.ModuleType("huggingface_hub")
    module.calls = []

    def hf_hub_download(repo_id, filename, *, revision, repo_type):
        module.calls.append((repo_id, filename, revision, repo_type))
        if isinstance(module.answer, Exception):
            raise module.answer
        return str(module.answer)

    module.hf_hub_download = hf_hub_download
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    return module


@pytest.fixture
def no_client(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)


def test_the_file_is_asked_for_at_its_revision(client, tmp_path):
    client.answer = tmp_path / "x.jsonl"
    client.answer.write_text("{}\n")
    digest = hashlib.sha256(b"{}\n").hexdigest()
    assert hub.hub_file("a/b", "x.jsonl", REVISION, sha256=digest) == client.answer
    assert hub.hub_file("a/b", "x.jsonl", REVISION, "model") == client.answer
    assert client.calls == [("a/b", "x.jsonl", REVISION, "dataset"), ("a/b", "x.jsonl", REVISION, "model")]


@pytest.mark.parametrize(
    "error", [ConnectionError("no route\nto host"), OSError("504"), ValueError("bad name"), Exception()]
)
def test_an_unreachable_hub_is_told_with_the_way_on(client, error):
    client.answer = error
    with pytest.raises(InputError, match=r"a/b/x\.jsonl at 0123456789ab.*hub.*--data FILE") as caught:
        hub.hub_file("a/b", "x.jsonl", REVISION)
    assert type(error).__name__ in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is error


def test_another_content_is_refused(client, tmp_path):
    client.answer = tmp_path / "x.jsonl"
    client.answer.write_text("tampered")
    with pytest.raises(InputError, match=r"instead of 0{12}.*--data FILE"):
        hub.hub_file("a/b", "x.jsonl", REVISION, sha256="0" * 64)
    client.answer.unlink()
    with pytest.raises(InputError, match="cannot be read"):
        hub.hub_file("a/b", "x.jsonl", REVISION, sha256="0" * 64)


def test_a_missing_client_names_the_extra_and_the_way_round(no_client):
    with pytest.raises(MissingExtraError, match=r"--data FILE.*abilene\[hub\]"):
        hub.hub_file("a/b", "x.jsonl", REVISION)


@pytest.mark.parametrize("revision", ["main", "0123456", "", REVISION.upper(), REVISION + "0"])
def test_a_revision_that_can_move_is_refused_before_anything_is_asked(client, revision):
    with pytest.raises(UsageError, match="full commit"):
        hub.hub_file("a/b", "x.jsonl", revision)
    assert client.calls == []


@pytest.mark.parametrize("source", [hub.HIDDENBENCH, hub.MUSIQUE, hub.MEDEINST])
def test_every_source_is_pinned_by_commit_and_content(source):
    assert len(source.revision) == 40 and int(source.revision, 16)
    assert source.sha256 is not None and len(source.sha256) == 64 and int(source.sha256, 16)
    assert source.licence and "/" in source.repo and source.kind == "dataset"


def test_the_pinned_hash_is_that_of_the_published_file():
    from _data import data_file

    digest = hashlib.sha256(data_file("hiddenbench.json").read_bytes()).hexdigest()
    assert digest == hub.HIDDENBENCH.sha256


@pytest.mark.parametrize(("bench", "source"), [(musique, hub.MUSIQUE), (medeinst, hub.MEDEINST)])
def test_benchmarks_go_to_the_hub_only_without_a_file(client, tmp_path, bench, source):
    client.answer = ConnectionError("offline")
    with pytest.raises(InputError, match="--data FILE"):
        bench.load()
    assert client.calls == [(source.repo, source.filename, source.revision, "dataset")]
    with pytest.raises(InputError, match="cannot be read"):
        bench.load(tmp_path / "absent.jsonl")
    assert len(client.calls) == 1


def test_a_local_file_needs_no_client(no_client, tmp_path):
    assert hub.local_or_hub(tmp_path / "x", hub.MUSIQUE) == tmp_path / "x"


def test_another_source_can_be_named(client):
    client.answer = ConnectionError("offline")
    with pytest.raises(InputError, match="me/mine"):
        musique.load(source=hub.HubFile("me/mine", "q.jsonl", REVISION))
