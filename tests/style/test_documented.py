"""Every public name has a docstring; every public function says what it takes and gives."""

from __future__ import annotations

import ast
from collections.abc import Iterator

Function = ast.FunctionDef | ast.AsyncFunctionDef


def public(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, ast.ClassDef | Function]]:
    """Public classes, functions and methods of a module or class, with their dotted names."""
    for node in body:
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef() if not node.name.startswith("_"):
                yield f"{prefix}{node.name}", node
                if isinstance(node, ast.ClassDef):
                    yield from public(node.body, f"{prefix}{node.name}.")
            case ast.If():  # names defined under a condition, such as a version check, are public too
                yield from public(node.body + node.orelse, prefix)


def names(source: dict[str, ast.Module]) -> Iterator[tuple[str, ast.ClassDef | Function]]:
    """Public names of all modules, as `path:line name`."""
    for path, tree in source.items():
        for name, node in public(tree.body, ""):
            if not name.endswith(".forward"):  # its class's docstring says what a module computes
                yield f"{path}:{node.lineno} {name}", node


def repeats(node: ast.ClassDef | Function) -> bool:
    """Whether this is one more form of a name documented elsewhere: an overload, a property's setter or deleter."""
    forms = [item.attr if isinstance(item, ast.Attribute) else getattr(item, "id", "") for item in node.decorator_list]
    return bool({"overload", "setter", "deleter"} & set(forms))


def bare(node: Function) -> list[str]:
    """Arguments of `node` without an annotation, and `return` where that is missing."""
    given = node.args
    arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))]
    missing = [item.arg for item in arguments if item.annotation is None and item.arg not in ("self", "cls")]
    return missing + ([] if node.returns else ["return"])


def test_every_module_has_a_docstring(source: dict[str, ast.Module]) -> None:
    missing = [path for path, tree in source.items() if not ast.get_docstring(tree)]
    assert not missing, "\n".join(missing)


def test_every_public_name_has_a_docstring(source: dict[str, ast.Module]) -> None:
    missing = [where for where, node in names(source) if not ast.get_docstring(node) and not repeats(node)]
    assert not missing, "\n".join(missing)


def test_every_public_function_is_annotated(source: dict[str, ast.Module]) -> None:
    found = [(where, bare(node)) for where, node in names(source) if not isinstance(node, ast.ClassDef)]
    missing = [f"{where}: {', '.join(holes)}" for where, holes in found if holes]
    assert not missing, "\n".join(missing)
