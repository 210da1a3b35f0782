"""The README tells the truth: its snippets run, its make targets exist, its tree is the tree."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[2] / "README.md"
TEXT = README.read_text() if README.exists() else ""
BLOCKS = re.findall(r"^```(\w*)[^\n]*\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)
PYTHON = [body for language, body in BLOCKS if language == "python"]
SHELL = [(language, body) for language, body in BLOCKS if language in ("bash", "console", "sh")]
SET_UP = ("pip", "git", "cd", "source")  # they change the reader's machine, not ours


def commands(language: str, body: str) -> list[str]:
    """Command lines of a block; a console block marks them with `$`, the rest is output."""
    lines = re.sub(r"\\\n\s*", "", body).splitlines()
    if language == "console":
        lines = [line[2:] for line in lines if line.startswith("$ ")]
    return [line.strip() for line in lines if shlex.split(line, comments=True)]


def test_the_readme_shows_python_and_commands() -> None:
    assert README.exists()
    assert PYTHON
    assert any("manyheads " in body for _, body in SHELL)


@pytest.mark.parametrize("body", PYTHON)
def test_python_snippet_runs(body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(body, "README.md", "exec"), {"__name__": "readme"})


@pytest.mark.parametrize(("language", "body"), SHELL)
def test_commands_run(language: str, body: str, tmp_path: Path, root: Path) -> None:
    shim = tmp_path / "bin" / "manyheads"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m manyheads "$@"\n')
    shim.chmod(0o755)
    env = os.environ | {"PATH": f"{shim.parent}{os.pathsep}{os.environ['PATH']}"}
    targets = re.findall(r"^([\w-]+):", (root / "Makefile").read_text(), flags=re.MULTILINE)
    for line in commands(language, body):
        first, *rest = shlex.split(line, comments=True)
        if first == "make":
            assert set(rest) <= set(targets), f"{line}: the Makefile has {targets}"
        elif first not in SET_UP:
            assert first == "manyheads", f"{line}: this test runs manyheads only"
            done = subprocess.run(["bash", "-o", "pipefail", "-c", line], cwd=tmp_path, env=env, capture_output=True)
            assert done.returncode == 0, f"{line}\n{done.stdout.decode()}{done.stderr.decode()}"


def test_the_tree_lists_the_rooms_that_exist(root: Path) -> None:
    rows = [re.sub(r"[│├└─]", " ", line) for line in TEXT.splitlines()]
    start = next((i for i, row in enumerate(rows) if re.match(r"\s*(src/)?manyheads/(\s|$)", row)), None)
    assert start is not None, "no tree with a line src/manyheads/ in README.md"
    inside: list[tuple[int, str]] = []
    for row in rows[start + 1 :]:
        indent = len(row) - len(row.lstrip())
        if not row.strip() or indent <= len(rows[start]) - len(rows[start].lstrip()):
            break
        inside.append((indent, row.split()[0]))
    listed = {name for indent, name in inside if indent == min(inside)[0] and name.endswith("/")}
    folders = [folder for folder in (root / "src/manyheads").iterdir() if folder.is_dir()]
    assert listed == {f"{folder.name}/" for folder in folders if any(folder.rglob("*.py"))}
