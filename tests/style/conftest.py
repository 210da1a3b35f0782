"""The project's own source, parsed once: what the style promises are checked against."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def parse(*folders: str) -> dict[str, ast.Module]:
    """Every Python file under `folders`, by its path from the root of the repository."""
    files = sorted(file for folder in folders for file in (ROOT / folder).rglob("*.py"))
    return {file.relative_to(ROOT).as_posix(): ast.parse(file.read_text()) for file in files}


@pytest.fixture(scope="session")
def root() -> Path:
    """Root of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def source() -> dict[str, ast.Module]:
    """The package, parsed."""
    parsed = parse("src")
    assert parsed, "no source under src"
    return parsed


@pytest.fixture(scope="session")
def tests() -> dict[str, ast.Module]:
    """The tests, parsed."""
    return parse("tests")
