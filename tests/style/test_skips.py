"""Every skipped or expected failure says why."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

# How many positional arguments come before the reason; None: it has to be named.
PLACE = {"skip": 0, "xfail": 0, "mark.skip": 0, "mark.skipif": None, "mark.xfail": None, "importorskip": None}


def kind(node: ast.AST) -> str:
    """Which way of skipping `node` names, or nothing."""
    name = ast.unparse(node).removeprefix("pytest.") if isinstance(node, ast.Attribute) else ""
    return name if name in PLACE else ""


def reason(call: ast.Call) -> ast.expr | None:
    """The reason that `call` gives."""
    named = [item.value for item in call.keywords if item.arg in ("reason", "msg")]
    place = PLACE[kind(call.func)]
    return named[0] if named else call.args[place] if place is not None and len(call.args) > place else None


def unexplained(tree: ast.AST) -> Iterator[int]:
    """Lines that skip without a reason."""
    calls = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if kind(node):
            given = reason(calls[id(node)]) if id(node) in calls else None
            if given is None or (isinstance(given, ast.Constant) and not str(given.value or "").strip()):
                yield node.lineno


def test_every_skip_has_a_reason(tests: dict[str, ast.Module]) -> None:
    found = [f"{path}:{line}" for path, tree in tests.items() for line in unexplained(tree)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("code", "explained"),
    [
        ("@pytest.mark.skip\ndef f(): ...", False),
        ("pytest.mark.skipif(True)", False),
        ("pytest.importorskip('timm')", False),
        ("pytest.skip('')", False),
        ("pytest.skip(f'no {thing} here')", True),
        ("pytest.mark.skipif(True, reason='no CUDA here')", True),
    ],
)
def test_a_skip_without_a_reason_is_found(code: str, explained: bool) -> None:
    assert (not list(unexplained(ast.parse(code)))) is explained
