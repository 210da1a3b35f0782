"""An experiment of one's own: a Python file that makes an `Experiment`, or the experiment.json beside earlier runs.

    manyheads run my_experiment.py           its only experiment: a constant, or what the function `experiment` returns
    manyheads run my_experiment.py:NAME      one of several
    manyheads run runs/mine-own              the experiment that is written beside these runs

The Python file is executed, since a person has named it. Nothing else is ever executed because of its name."""

from __future__ import annotations

import os
import sys
import traceback
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from manyheads.experiments import registry
from manyheads.spec.errors import UserError, first_line, nearest
from manyheads.spec.experiment import Experiment
from manyheads.spec.experiment_file import EXPERIMENT, load

EXAMPLE = "MINE = Experiment(name=..., ...), or a function experiment() that returns one"


def is_file(name: str) -> bool:
    """Whether `name` is meant as a file or folder, and not as the name of an experiment of the catalogue."""
    path = name.rpartition(":")[0] or name
    return any(part.endswith((".py", ".json")) for part in (name, path)) or os.sep in name


def own_experiment(name: str) -> Experiment:
    """The experiment in a file: FILE.py, FILE.py:NAME, an experiment.json, or the folder that holds one."""
    path, wanted = Path(name), ""
    if not path.exists() and ":" in name:
        before, _, wanted = name.rpartition(":")
        path = Path(before)
    if path.is_dir():
        path = path / EXPERIMENT
    if not path.is_file():
        raise UserError(f"{path} does not exist; write a Python file with {EXAMPLE}, or an {EXPERIMENT}")
    one = load(path) if path.suffix == ".json" else _in_module(path, wanted)
    if path.suffix != ".json" and one.name in registry.EXPERIMENTS:
        raise UserError(
            f"{path} calls its experiment {one.name}, which is one of manyheads' own; give it another name, so that "
            "their runs are kept apart"
        )
    return one


def _in_module(path: Path, wanted: str) -> Experiment:
    module = _executed(path)
    constants = {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, Experiment) and not name.startswith("_") and not _imported(value, module)
    }
    make = vars(module).get("experiment")
    if wanted:
        value = vars(module).get(wanted)
        if callable(value) and not isinstance(value, type):
            return _made(value, path, wanted)
        if not isinstance(value, Experiment):
            names = [*constants, *(["experiment"] if callable(make) else [])]
            raise UserError(
                f"{path} has no experiment {wanted!r}{nearest(wanted, names)}; it has {', '.join(names) or 'none'}"
            )
        return value
    if callable(make) and not constants:
        return _made(make, path, "experiment")
    if not constants:
        raise UserError(f"{path} holds no experiment; write {EXAMPLE}")
    if len({id(value) for value in constants.values()}) > 1:
        raise UserError(f"{path} holds {len(constants)} experiments; write {path}:{' or :'.join(constants)}")
    return next(iter(constants.values()))


def _imported(value: Experiment, module: ModuleType) -> bool:
    """Whether an experiment is one of the catalogue's, which a file imports in order to change it."""
    others = [other for name, other in list(sys.modules.items()) if name.startswith("manyheads.experiments.")]
    return any(value is item for other in others if other is not module for item in vars(other).values())


def _executed(path: Path) -> ModuleType:
    """The module of a user's file. An error in it is told with its line, without a traceback of ours."""
    stated = spec_from_file_location(path.stem, path)
    assert stated is not None
    assert stated.loader is not None
    module = module_from_spec(stated)
    sys.modules.setdefault(path.stem, module)  # dataclasses in the file look their module up
    sys.path.insert(0, str(path.resolve().parent))
    try:
        stated.loader.exec_module(module)
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{_place(path, error)}: {type(error).__name__}: {first_line(error)}") from error
    finally:
        sys.path.pop(0)
    return module


def _made(make: Any, path: Path, name: str) -> Experiment:
    try:
        value = make()
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{_place(path, error)}: {type(error).__name__}: {first_line(error)}") from error
    if not isinstance(value, Experiment):
        raise UserError(f"{name}() of {path} returns a {type(value).__name__}; return an Experiment")
    return value


def _place(path: Path, error: Exception) -> str:
    """The file and the line of it at which an error was raised."""
    if isinstance(error, SyntaxError):
        return f"{path}, line {error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == path]
    lines += [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if not lines and Path(frame.filename).resolve() == path.resolve()
    ]
    return f"{path}, line {lines[-1]}" if lines else str(path)
