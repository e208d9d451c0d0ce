"""Load a 200 MB events log and derive its counts: CPU seconds, peak memory, and the ratio to plain `json.loads`.

    python benchmarks/events_load.py [--megabytes 200] [--dirty]

Each side runs in a process of its own; both read the same file in a temporary folder. ``--dirty`` puts a
malformed line into every block, the worst case of the reader.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

OPTIONS = ["Alexandra Hartley", "Benjamin Osei", "Charlotte Nwosu"]
BRANCHES = ["A0", "C0", "C4"]
FILLER = "I weighed what the others reported against my own notes before I settled on an answer. " * 8


def generate(path: Path, megabytes: float, dirty: bool, short: bool) -> int:
    """Write a log of about that size; returns its number of lines."""
    rng = np.random.default_rng(0)
    size = lines = task = 0
    bad_at = 4 << 20
    with path.open("w", encoding="utf-8") as f:
        while size < megabytes * 1e6:
            truth = OPTIONS[rng.integers(3)]
            common = {
                "task_id": f"task-{task:05d}",
                "topology": "complete",
                "model": "provider/some-model-name",
            }
            common |= {"intervention": "none", "answer": truth}
            first = [OPTIONS[k] for k in rng.integers(0, 3, 5)]
            rows = []
            for branch in ["r0", *BRANCHES]:
                before = first
                for t in range(0 if branch == "r0" else 1, 1 if branch == "r0" else 4):
                    held, said = (
                        first if t == 0 else [OPTIONS[k] for k in rng.integers(0, 3, 5)] for _ in (0, 1)
                    )
                    for i in range(5):
                        others = [j for j in range(5) if j != i]
                        rows.append(
                            common
                            | {
                                "agent": i,
                                "round": t,
                                "branch": branch,
                                "private": held[i],
                                "public": said[i],
                            }
                            | {
                                "share": None if t == 0 else 1,
                                "share_about": truth,
                                "share_text": "a finding",
                            }
                            | {"probe_ok": None if t == 0 else True, "neighbours": others if t else []}
                            | {"nb_public": [before[j] for j in others] if t else []}
                            | {
                                "raw": FILLER[: 10 if short else rng.integers(100, 700)]
                                + f"\nPUBLIC: {said[i]}"
                            }
                        )
                    before = said
            for row in rows:
                size += f.write(json.dumps(row) + "\n")
            lines += len(rows)
            task += 1
            if dirty and size > bad_at:
                size += f.write('{"task_id": "cut\n')
                bad_at += 4 << 20
    return lines


def ours(path: Path, text: bool) -> dict[str, float]:
    from abilene.records.derive import derive
    from abilene.records.files import load

    start = time.process_time()
    loaded = load(path, text=text)
    middle = time.process_time()
    derived = derive(loaded.record)
    end = time.process_time()
    used = sum(s.rows.used for s in derived.settings)
    return {"load": middle - start, "derive": end - middle, "cpu": end - start, "used": used}


def plain(path: Path) -> dict[str, float]:
    start = time.process_time()
    with path.open(encoding="utf-8") as f:
        rows = [json.loads(line) for line in f if line.strip() and not line.endswith("cut\n")]
    return {"cpu": time.process_time() - start, "rows": len(rows)}


def measure(what: str, path: Path) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, __file__, "--child", what, str(path)], capture_output=True, text=True, check=True
    )
    result: dict[str, float] = json.loads(done.stdout)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=200)
    parser.add_argument("--dirty", action="store_true")
    parser.add_argument(
        "--short", action="store_true", help="raw replies of a few words: more rows in as many bytes"
    )
    parser.add_argument("--child", nargs=2)
    args = parser.parse_args()
    if args.child:
        what, path = args.child[0], Path(args.child[1])
        result = plain(path) if what == "json" else ours(path, text=what == "text")
        result["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps(result))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.jsonl"
        lines = generate(path, args.megabytes, args.dirty, args.short)
        print(f"{path.stat().st_size / 1e6:.0f} MB, {lines} lines")
        reference = measure("json", path)
        print(
            f"json.loads into a list of dicts  {reference['cpu']:6.2f} CPU-s  {reference['peak_mb']:6.0f} MB"
        )
        for what, name in (("light", "load(text=False) and derive"), ("text", "load(text=True) and derive")):
            r = measure(what, path)
            print(
                f"{name:31}  {r['cpu']:6.2f} CPU-s  {r['peak_mb']:6.0f} MB  "
                f"(load {r['load']:.2f}, derive {r['derive']:.2f}; {r['used']} rows used); "
                f"{r['cpu'] / reference['cpu']:.2f} of its CPU, {r['peak_mb'] / reference['peak_mb']:.2f} of its memory"
            )


if __name__ == "__main__":
    main()
