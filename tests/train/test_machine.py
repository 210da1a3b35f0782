"""A result says where, when and on what data it was made, as far as anybody knows, and nothing is invented."""

from __future__ import annotations

import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import manyheads
from manyheads.train.machine import commit
from tests.train.tiny import run_here, spec, steps


def test_a_result_says_when_and_by_what_code_it_was_made(tmp_path: Path) -> None:
    result = run_here(tmp_path / "a", spec(basis=steps(4)))
    machine, timing = result["machine"], result["timing"]
    assert machine["manyheads"] == manyheads.__version__
    assert machine["commit"] == commit()
    assert machine["cores"] >= 1
    assert datetime.now(UTC) - datetime.fromisoformat(timing["finished"]) < timedelta(minutes=5)
    assert timing["overhead"] >= 0
    assert result.get("data_sha256") is None  # its samples are generated


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with a package in it, committed, and an installed one, which git ignores."""
    if shutil.which("git") is None:
        pytest.skip("git is missing")
    for name in ("src/package", "venv/package"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "__init__.py").write_text("")
    (tmp_path / ".gitignore").write_text("venv/\n")
    person = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org"]
    for command in (["init", "-q"], ["add", "."], [*person, "commit", "-qm", "Begin"]):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True)
    return tmp_path


def test_the_commit_is_that_of_a_checkout_and_of_no_repository_around_it(checkout: Path) -> None:
    head = subprocess.run(["git", "-C", str(checkout), "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    package = checkout / "src" / "package"
    assert commit(package) == head.stdout.strip()
    assert commit(checkout / "venv" / "package") is None
    assert commit(checkout / "src" / "absent") is None
    (package / "__init__.py").write_text("changed = True\n")
    commit.cache_clear()
    assert commit(package) == f"{head.stdout.strip()}-dirty"
