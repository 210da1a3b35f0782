"""Nothing is pickled or unpickled: weights and checkpoints are safetensors."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

MODULES = {"pickle", "_pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
CALLS = {
    "torch.load",
    "torch.save",
    "torch.serialization.load",
    "torch.serialization.save",
    "pandas.read_pickle",
    # the default storage of torch.distributed.checkpoint pickles its metadata; its safetensors storage does not
    "torch.distributed.checkpoint.FileSystemReader",
    "torch.distributed.checkpoint.FileSystemWriter",
}


def aliases(tree: ast.AST) -> dict[str, str]:
    """What each imported name stands for, e.g. `dcp` for torch.distributed.checkpoint."""
    known = {}
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                known |= {item.asname: item.name for item in node.names if item.asname}
            case ast.ImportFrom(module=str(module), level=0):
                known |= {item.asname or item.name: f"{module}.{item.name}" for item in node.names}
    return known


def dotted(node: ast.AST, known: dict[str, str]) -> str:
    """`t.load` as torch.load, imports resolved."""
    match node:
        case ast.Name(id=name):
            return known.get(name, name)
        case ast.Attribute(value=value, attr=attr):
            return f"{dotted(value, known)}.{attr}"
    return ""


def pickles(tree: ast.AST) -> Iterator[str]:
    """What in `tree` pickles, with its line."""
    known = aliases(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                yield from (f"{node.lineno} import {x.name}" for x in node.names if x.name.split(".")[0] in MODULES)
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] in MODULES:
                yield f"{node.lineno} import {module}"
            case ast.Name() | ast.Attribute() if (name := dotted(node, known)) in CALLS:
                yield f"{node.lineno} {name}"
            case ast.keyword(arg="allow_pickle", value=value) if getattr(value, "value", None) is not False:
                yield f"{value.lineno} allow_pickle"


def test_nothing_is_pickled(source: dict[str, ast.Module]) -> None:
    found = [f"{path}:{what}" for path, tree in source.items() for what in pickles(tree)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "from joblib import dump",
        "import torch as t\nt.load('x', weights_only=True)",
        "from torch import save as keep\nkeep(1, 'x')",
        "import numpy as np\nnp.load('x', allow_pickle=True)",
        "import torch.distributed.checkpoint as dcp\ndcp.FileSystemWriter('x')",
    ],
)
def test_no_spelling_of_a_pickle_escapes(code: str) -> None:
    assert list(pickles(ast.parse(code)))


def test_safetensors_is_no_pickle() -> None:
    assert not list(pickles(ast.parse("from safetensors.torch import load_file, save_file\nload_file('x')")))
