"""A run in a process of its own, to be killed: python tests/_kill_worker.py OUT CALLS

Every call to a simulated agent takes 5 ms or so and is appended to CALLS when its answer leaves the agent.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time

from abilene.evals.behavioural import BehaviouralAPI
from abilene.evals.config import RunConfig
from abilene.evals.drive import run


def main(out: str, calls: str) -> None:
    # Started in the background, a process inherits an ignored SIGINT, and Python keeps ignoring it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    real = BehaviouralAPI.generate

    async def generate(self, input, tools, tool_choice, config):
        await asyncio.sleep(0.005)
        answer = await real(self, input, tools, tool_choice, config)
        data = input[-1].metadata
        key = [data.get(k) for k in ("task", "round", "agent", "kind", "instruction")]
        with open(calls, "a") as f:
            f.write(json.dumps({"key": key, "time": time.time()}) + "\n")
        return answer

    BehaviouralAPI.generate = generate
    rates = {"c": 0.5, "a": 0.5, "rho": 0.8, "r": 0.7}
    result = run(
        RunConfig(
            instructions=("A", "C"), tasks=12, rounds=2, seed=5, out=out, model_args=rates, connections=30
        ),
        progress=False,
    )
    assert result.complete, result


if __name__ == "__main__":
    main(*sys.argv[1:])
