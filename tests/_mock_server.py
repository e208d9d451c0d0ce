"""An OpenAI-compatible server on loopback with latency and faults of choice, in a process of its own.

    python tests/_mock_server.py '{"port": 0, "latency": 2.0, "faults": {"429": 0.1}}'

prints its port. Which call fails, and how, is drawn from the call's prompts and attempt: as reproducible as they
are. It answers in the format that is asked for, by rules that need nothing but the prompt. Every request is
appended to a log file as one JSON line.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

FAULTS = ("429", "hang", "500", "empty", "garbage", "think", "length", "refusal")
OPTIONS = re.compile(r"(?:PRIVATE|ANSWER): <(?:one of: )?([^>]+)>")


@dataclass
class Config:
    port: int = 0
    latency: float = 0.0
    faults: dict[str, float] = field(default_factory=dict)
    log: str | None = None
    every_attempt: bool = False  # a fault that was drawn stays for all attempts of the call
    seed: int = 0


def draw(*key: object) -> float:
    digest = hashlib.blake2b(repr(key).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") / 2**64


def answer(prompt: str, seed: int) -> str:
    """A valid reply: options as the prompt lists them, chosen by a hash of the prompt."""
    options = [o.strip() for o in re.split(r"\s\|\s|\sor\s", OPTIONS.search(prompt)[1])]
    if len(options) == 1:
        options = options * 2
    first = options[int(draw(seed, "first", prompt) * len(options))]
    other = options[int(draw(seed, "other", prompt) * len(options))]
    if "PUBLIC: <" in prompt:
        return f"PRIVATE: {first}\nPUBLIC: {other}\nSHARE: {'P1' if draw(seed, 'share', prompt) < 0.5 else 'NONE'}"
    if "COUNT: " in prompt:
        names = re.search(r"COUNT: (.+?)=<.*> (.+?)=<", prompt)
        return f"COUNT: {names[1]}=3 {names[2]}=4\nANSWER: {first}"
    return f"ANSWER: {first}"


def completion(text: str, stop: str = "stop") -> dict[str, Any]:
    return {
        "id": "mock",
        "object": "chat.completion",
        "created": 1,
        "model": "mock",
        "choices": [{"index": 0, "finish_reason": stop, "message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": 500, "completion_tokens": 20, "total_tokens": 520},
    }


def call_key(system: str, user: str) -> str:
    """What a call is told apart by on the wire: its two prompts."""
    return hashlib.md5(f"{system}\0{user}".encode()).hexdigest()


def fault_of(config: Config, key: str, attempt: int) -> str | None:
    u = draw(config.seed, "fault", key, 0 if config.every_attempt else attempt)
    for name in FAULTS:
        u -= config.faults.get(name, 0.0)
        if u < 0:
            return name
    return None


def app(config: Config) -> web.Application:
    attempts: Counter[str] = Counter()

    async def chat(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        messages = body["messages"]
        key = call_key(*(m["content"] for m in messages))
        attempt = attempts[key]
        attempts[key] += 1
        fault = fault_of(config, key, attempt)
        if config.log:
            with Path(config.log).open("a") as f:
                entry = {"key": key, "attempt": attempt, "fault": fault, "time": time.time()}
                entry |= {"body": {k: v for k, v in body.items() if k != "messages"}}
                f.write(json.dumps(entry) + "\n")
        if fault == "429":
            return web.json_response(
                {"error": {"message": "slow down", "type": "rate_limit", "code": "rate_limit_exceeded"}},
                status=429,
                headers={"Retry-After": "0"},
            )
        if fault == "500":
            return web.json_response({"error": {"message": "boom sk-verysecretkey123"}}, status=500)
        if fault == "hang":
            await asyncio.sleep(3600)
        if config.latency:
            await asyncio.sleep(config.latency)
        if fault == "empty":
            return web.json_response(completion(""))
        if fault == "garbage":
            return web.json_response(completion("¯\\_(ツ)_/¯ lorem 42 {]\x00 ipsum"))
        text = answer(messages[-1]["content"], config.seed)
        if fault == "think":
            decoy = "PUBLIC: nobody\nANSWER: nobody"
            return web.json_response(completion(f"<think>Hm.\n{decoy}\n</think>\n{text}"))
        if fault == "length":
            return web.json_response(completion("Let me think about this, first the", stop="length"))
        if fault == "refusal":
            return web.json_response(completion("", stop="content_filter"))
        return web.json_response(completion(text))

    application = web.Application()
    application.router.add_post("/v1/chat/completions", chat)
    return application


async def serve(config: Config) -> None:
    runner = web.AppRunner(app(config), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", config.port, backlog=2048)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


@contextlib.contextmanager
def mock_server(**config: Any) -> Iterator[str]:
    """A server in another process; yields its base URL."""
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).resolve()), json.dumps(config)], stdout=subprocess.PIPE, text=True
    )
    try:
        port = process.stdout.readline().strip()
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def requests(log: str | Path) -> list[dict[str, Any]]:
    path = Path(log)
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


if __name__ == "__main__":
    asyncio.run(serve(Config(**json.loads(sys.argv[1]))))
