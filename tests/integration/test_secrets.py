"""A server that repeats the request's credentials, in an error or in a reply: they must reach no file of the run."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from inspect_ai.log import read_eval_log

from abilene.evals.drive import RunConfig, run

SECRET = "sk-secret-12345678-abcdef"


class Echo(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        told = f"PRIVATE: your header was {self.headers['Authorization']}"
        if self.server.status == 200:
            message = {"role": "assistant", "content": told}
            body = {
                "id": "x", "object": "chat.completion", "created": 0, "model": "m",
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
            }  # fmt: skip
        else:
            body = {"error": {"message": told, "type": "auth", "code": "bad"}}
        data = json.dumps(body).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass


@pytest.mark.parametrize("status", [401, 400, 200])
def test_an_echoed_key_reaches_no_file(tmp_path, monkeypatch, status, capfd):
    monkeypatch.setenv("ECHO_API_KEY", SECRET)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    server.status = status
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        result = run(
            RunConfig(
                model="openai-api/echo/m", base_url=f"http://127.0.0.1:{server.server_port}/v1", tasks=1, rounds=1,
                max_retries=0, out=tmp_path / "run",
            ),
            progress=False,
        )  # fmt: skip
    finally:
        server.shutdown()
    record = result.loaded.record
    told = record["public_error"] if status != 200 else record["public_raw"]
    assert told.str.contains(r"\*\*\*").any(), "the echo must have arrived, cleaned"
    logged = "".join(read_eval_log(str(path)).model_dump_json() for path in result.logs)
    assert "your header was" in logged
    assert "secret-12345678" not in logged
    assert not any(record[c].str.contains("secret-12345678").any() for c in ("public_raw", "public_error"))
    for path in (tmp_path / "run").rglob("*"):
        assert path.is_dir() or b"secret-12345678" not in path.read_bytes(), path
    assert "secret-12345678" not in "".join(capfd.readouterr())
