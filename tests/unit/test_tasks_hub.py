"""No test reaches the hub: the client is replaced, or the hub is a server of the test, and sockets are off anyway."""

import hashlib
import http.server
import json
import os
import re
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

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


# The real client, and a stand-in for the hub -------------------------------------------------------------

BODY = b'{"id": 1}\n{"id": 2}\n'
#: Asks for each file in turn; the client reads its settings where it is imported, hence a process of its own.
ASK = """
import json, sys, time
from abilene.errors import InputError
from abilene.tasks.hub import hub_file
time.sleep = lambda seconds: None  # the client waits 23 s between its attempts, and has no setting for that
for repo, name, sha256 in json.loads(sys.argv[1]):
    try:
        print(json.dumps(["path", str(hub_file(repo, name, sys.argv[2], sha256=sha256))]))
    except InputError as e:
        print(json.dumps(["error", str(e)]))
"""


@pytest.fixture
def stand_in():
    """A hub with one file, which keeps every request for a file."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self):
            if not self.path.startswith(
                "/api/"
            ):  # the client asks for other things too, and does without them
                self.server.requests.append((self.command, self.path))
            there = self.path == f"/datasets/a/b/resolve/{REVISION}/x.jsonl"
            body = BODY if there else b""
            self.send_response(200 if there else 404)
            if there:
                self.send_header("ETag", f'"{hashlib.sha256(body).hexdigest()}"')
            else:
                missing = "EntryNotFound" if "/a/b/" in self.path else "RepoNotFound"
                self.send_header("X-Error-Code", missing)
            self.send_header("X-Repo-Commit", REVISION)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_GET = do_HEAD = answer

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.requests = []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    server.stop = lambda: (server.shutdown(), server.server_close(), thread.join(10))
    yield server
    server.stop()


@pytest.fixture
def ask(stand_in, tmp_path):
    """Ask the real client, as a user's process would, for files of the stand-in."""
    pytest.importorskip("huggingface_hub")

    def call(*wanted, **changes):
        kept = {k: v for k, v in os.environ.items() if not k.startswith("HF_") and "proxy" not in k.lower()}
        env = kept | {
            "HF_ENDPOINT": f"http://127.0.0.1:{stand_in.server_port}",
            "HF_HOME": str(tmp_path / "hf"),
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
        }
        done = subprocess.run(
            [sys.executable, "-c", ASK, json.dumps(wanted), REVISION],
            env=env | changes, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    return call


FILE = f"/datasets/a/b/resolve/{REVISION}/x.jsonl"


def test_the_real_client_downloads_once_and_then_needs_no_hub(ask, stand_in, tmp_path):
    wanted = ("a/b", "x.jsonl", hashlib.sha256(BODY).hexdigest())
    [[kind, path]] = ask(wanted)
    assert kind == "path" and Path(path).read_bytes() == BODY
    assert Path(path).is_relative_to(tmp_path / "hf")
    assert stand_in.requests == [("HEAD", FILE), ("GET", FILE)]
    assert ask(wanted, wanted) == [["path", path]] * 2
    assert stand_in.requests == [("HEAD", FILE), ("GET", FILE)]
    stand_in.stop()
    assert ask(wanted) == [["path", path]]


def test_the_real_client_and_another_content(ask, stand_in):
    [[kind, told]] = ask(("a/b", "x.jsonl", "0" * 64))
    assert kind == "error" and "x.jsonl" in told and told.count("\n") == 0
    found = hashlib.sha256(BODY).hexdigest()[:12]
    assert f"hashes to {found}... instead of 000000000000..." in told and "--data FILE" in told
    assert stand_in.requests == [("HEAD", FILE), ("GET", FILE)]


def test_the_real_client_and_what_is_not_there(ask, stand_in):
    (_, file), (_, repo) = answers = ask(("a/b", "no.jsonl", None), ("c/d", "x.jsonl", None))
    assert [kind for kind, _ in answers] == ["error", "error"]
    assert file.startswith("a/b/no.jsonl at 0123456789ab: cannot be had") and "404" in file
    assert repo.startswith("c/d/x.jsonl at 0123456789ab: cannot be had") and "RepositoryNotFound" in repo
    assert all(told.count("\n") == 0 and told.endswith("--data FILE.") for told in (file, repo))
    assert {command for command, _ in stand_in.requests} == {"HEAD"}


@pytest.mark.parametrize(
    ("changes", "says"), [({}, "ConnectError: .*refused"), ({"HF_HUB_OFFLINE": "1"}, "OfflineMode")]
)
def test_the_real_client_without_a_hub(ask, stand_in, changes, says):
    stand_in.stop()
    before = time.monotonic()
    [[kind, told]] = ask(("a/b", "x.jsonl", None), **changes)
    assert time.monotonic() - before < 20
    assert kind == "error" and told.startswith("a/b/x.jsonl at 0123456789ab: cannot be had")
    assert told.count("\n") == 0 and told.endswith("--data FILE.")
    assert re.search(says, told), told
