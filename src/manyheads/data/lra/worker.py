"""A process that makes some files of a set: `python -m manyheads.data.lra.worker`, told which on its standard input.

Not a process of `multiprocessing`: that runs the caller's script a second time to find its functions, and a script
without a guard would train a second time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from manyheads.spec.errors import UserError

if TYPE_CHECKING:
    from .generated import Job

POLL = 0.1  # seconds


def side_by_side(jobs: Sequence[Job], workers: int, look: Callable[[], None]) -> None:
    """Do all jobs in `workers` processes; `look` is called again and again meanwhile."""
    package = str(Path(__file__).resolve().parents[3])  # the folder that holds manyheads, installed or not
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))}
    command = [sys.executable, "-m", "manyheads.data.lra.worker"]
    started = []
    try:
        for number in range(workers):
            told = json.dumps([{**asdict(job), "path": str(job.path)} for job in jobs[number::workers]])
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
            started.append(process)
            assert process.stdin is not None
            process.stdin.write(told)
            process.stdin.close()
        while any(process.poll() is None for process in started):
            look()
            time.sleep(POLL)
        look()
        for process in started:
            if process.returncode:
                assert process.stderr is not None
                said = process.stderr.read().strip().splitlines() or [f"it ended with {process.returncode}"]
                raise UserError(f"a process that made part of a set failed: {said[-1]}")
    finally:
        for process in started:
            if process.poll() is None:
                process.kill()
            process.wait()
            if process.stderr is not None:
                process.stderr.close()


def main() -> int:
    """Make the files that standard input lists."""
    from .generated import KINDS, Job

    try:
        for told in json.load(sys.stdin):
            setting = KINDS[told["kind"]][1](**told["setting"])
            Job(**{**told, "path": Path(told["path"]), "setting": setting}).run()
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
