"""A small specification, and Python in another process: what the tests of the run folder are made of."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from manyheads.arch import zoo
from manyheads.arch.redesign import redesign
from manyheads.runs import RunSpec
from tests.specs import run_spec

ROOT = Path(__file__).resolve().parents[2]
HEAD = f"""
import os, signal, sys, time
sys.path[:0] = [{str(ROOT / "src")!r}, {str(ROOT)!r}]
from pathlib import Path
from manyheads.spec.errors import UserError
from manyheads.runs import *
from tests.runs.examples import spec
folder = Path(sys.argv[1])
"""


def spec(seed: int = 0, **recipe: Any) -> RunSpec:
    """A lean ViT that nobody trains."""
    arch = redesign(zoo.get("vit_s"), depth=4, heads=8)
    task = {"is": "Images", "data": "fashion_mnist"}
    return run_spec(arch, task, {"lr": 1e-3, "batch": 64} | recipe, seed, {"experiment": "fig2", "arm": "lean"})


def start(code: str, folder: Path, *before: str) -> subprocess.Popen[str]:
    """`code` in a new process, with `folder` and the names of the room; its output comes through a pipe."""
    command = [*before, sys.executable, "-c", HEAD + code, str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.PIPE, text=True)


def done(process: subprocess.Popen[str]) -> str:
    """What a process that has to succeed printed."""
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out


def powerless() -> tuple[str, ...]:
    """What to write before a command so that root, too, is bound by permissions."""
    if os.geteuid():
        return ()
    if subprocess.run(["unshare", "--user", "true"], capture_output=True).returncode:
        pytest.skip("root may read everything, and cannot give that up here")
    return ("unshare", "--user")


def on_small_disk(code: str, folder: Path, size: str, options: str = "") -> str:
    """What `code` prints when `folder` is a file system of its own, `size` large. Skips where none can be mounted."""
    folder.mkdir()
    mount = f'mount -t tmpfs -o size={size}{options} tmpfs "$1" && shift && exec "$@"'
    inside = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh", str(folder)]
    try:
        able = subprocess.run([*inside, "true"], capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("no unshare here, so no file system can be mounted for a test")
    if able.returncode:
        pytest.skip(f"no file system can be mounted for a test: {able.stderr.strip()}")
    run = subprocess.run([*inside, sys.executable, "-c", HEAD + code, str(folder)], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout
