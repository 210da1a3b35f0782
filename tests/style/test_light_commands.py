"""`--help`, `shape`, `audit` and what lists names import neither torch nor numpy."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = ("torch", "numpy", "scipy", "matplotlib", "timm", "transformers")
RUN = f"""
import json, sys
from manyheads.cli import main
try:
    code = main()
except SystemExit as stop:
    code = stop.code
heavy = [name for name in {HEAVY!r} if name in sys.modules]
print(json.dumps([code or 0, heavy]), file=sys.stderr)
"""


@pytest.mark.parametrize(
    "command",
    [
        ["--help"],
        ["zoo"],
        ["tasks"],
        ["recipes"],
        ["datasets"],
        ["experiments"],
        ["shape", "vit_b", "--depth", "7", "--heads", "16"],
        ["shape", "vit_b", "--depth", "7", "--heads", "16", "--mlp-dim", "1536", "--json"],
        ["audit"],
        ["audit", "--json"],
    ],
    ids=" ".join,
)
def test_command_imports_neither_torch_nor_numpy(command: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", RUN, *command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    code, heavy = json.loads(done.stderr.splitlines()[-1])
    assert code == 0, done.stdout + done.stderr
    assert heavy == []
    assert done.stdout.strip()
