"""A room imports only rooms listed above it; `arch` and `runs` need nothing but the standard library."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

import pytest

# fmt: off
ROOMS = (
    "spec", "arch", "paper", "runs", "nn", "models", "conditioning", "transplant", "planner", "data", "tasks", "train",
    "experiments", "sweep", "report", "interop", "cli",
)
# fmt: on
PURE = ("spec", "arch", "paper", "runs")
SIDE_DOORS = {"timm", "transformers"}  # what only interop may touch


def room(path: str) -> str:
    """Room of a file; the package's own `__init__` and `__main__` stand after the last room and have none."""
    part = path.removeprefix("src/manyheads/").split("/")[0].removesuffix(".py")
    return "" if part in ("__init__", "__main__") else part


def absolute(path: str, node: ast.ImportFrom) -> str:
    """The module that `from ... import` names, dots resolved."""
    if not node.level:
        return node.module or ""
    package = path.removeprefix("src/").split("/")[: -node.level]
    return ".".join([*package, *filter(None, [node.module])])


def imported(path: str, tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and dotted name of each import, those inside functions and `import_module("...")` included."""
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                yield from ((node.lineno, alias.name) for alias in node.names)
            case ast.ImportFrom():
                module = absolute(path, node)
                yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)
            case ast.Call(func=ast.Attribute(attr="import_module") | ast.Name(id="import_module" | "__import__")):
                if node.args and isinstance(node.args[0], ast.Constant):
                    yield node.lineno, str(node.args[0].value)


def fault(here: str, name: str) -> str:
    """Why `here` may not import `name`, or nothing."""
    top, _, rest = name.partition(".")
    if top != "manyheads":
        if top in SIDE_DOORS and here != "interop":
            return "only interop imports it"
        return "not in the standard library" if here in PURE and top not in sys.stdlib_module_names else ""
    there = rest.split(".")[0]
    if there == "__version__" or not here:
        return ""
    if there not in ROOMS:
        return "the package itself stands after the last room"
    if there == "interop" and here not in ("interop", "cli"):
        return "interop is imported by cli only"
    return "" if ROOMS.index(there) <= ROOMS.index(here) else f"{there} stands below {here}"


def test_every_room_has_its_place_in_the_order(source: dict[str, ast.Module]) -> None:
    assert sorted({room(path) for path in source} - {"", *ROOMS}) == []


def test_a_room_imports_only_rooms_above_it(source: dict[str, ast.Module]) -> None:
    wrong = [
        f"{path}:{line} imports {name}: {reason}"
        for path, tree in source.items()
        for line, name in imported(path, tree)
        if (reason := fault(room(path), name))
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("path", "code", "names"),
    [
        ("src/manyheads/spec/arch.py", "from .parts import Mlp", ["manyheads.spec.parts.Mlp"]),
        ("src/manyheads/arch/__init__.py", "from . import spec", ["manyheads.arch.spec"]),
        ("src/manyheads/nn/a.py", "from .. import models", ["manyheads.models"]),
        ("src/manyheads/nn/a.py", "def f():\n    import timm.layers", ["timm.layers"]),
        ("src/manyheads/nn/a.py", "import_module('manyheads.cli')", ["manyheads.cli"]),
    ],
)
def test_no_spelling_of_an_import_escapes(path: str, code: str, names: list[str]) -> None:
    assert [name for _, name in imported(path, ast.parse(code))] == names


@pytest.mark.parametrize(
    ("here", "name", "allowed"),
    [
        ("models", "manyheads.nn.mlp.Mlp", True),
        ("nn", "manyheads.models.vit", False),
        ("arch", "numpy", False),
        ("arch", "dataclasses", True),
        ("conditioning", "timm.layers", False),
        ("interop", "timm.layers", True),
        ("report", "manyheads.interop", False),
        ("cli", "manyheads.interop.resolve", True),
        ("", "manyheads.cli", True),
        ("nn", "manyheads.vit_b", False),
        ("runs", "manyheads.__version__", True),
    ],
)
def test_the_rule_is_the_one_in_the_design(here: str, name: str, allowed: bool) -> None:
    assert (fault(here, name) == "") is allowed
