"""A name means one thing: no two classes of the package are called the same, no two files of a room."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

# what a reader cannot tell the content of a file from, and what a formatter would be told to leave alone
EMPTY_NAMES = {"utils", "util", "helpers", "common", "misc", "base", "core", "one", "words", "plain"}
MARK, HERE = "# fmt: skip", "tests/style/test_names.py"


def test_a_class_name_means_one_thing(source: dict[str, ast.Module]) -> None:
    places = defaultdict(list)
    for path, tree in source.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(path)
    twice = {name: paths for name, paths in places.items() if len(paths) > 1}
    assert not twice


def test_a_file_is_named_after_its_content_once_in_a_room(source: dict[str, ast.Module]) -> None:
    places = defaultdict(list)
    for path in source:
        room, _, name = path.removeprefix("src/manyheads/").rpartition("/")
        places[room.split("/")[0], name.removesuffix(".py")].append(path)
    twice = {key: paths for key, paths in places.items() if len(paths) > 1 and key[1] != "__init__"}
    assert not twice
    assert not {path for path in source if path.rpartition("/")[2].removesuffix(".py") in EMPTY_NAMES}


def test_the_formatter_decides(root: Path, source: dict[str, ast.Module], tests: dict[str, ast.Module]) -> None:
    """Tables of data are fenced off; single lines are not."""
    marked = [path for path in (*source, *tests) if MARK in (root / path).read_text() and path != HERE]
    assert not marked
