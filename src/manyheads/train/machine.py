"""Where a run was trained and by what code, as far as its numbers may depend on it."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import torch

from manyheads import __version__
from manyheads.spec.recipe import Recipe

from .numerics import uses_compile, uses_half
from .parallel import Ranks

PACKAGE = Path(__file__).resolve().parents[1]
PATIENCE = 10.0  # seconds for git


def machine(recipe: Recipe, ranks: Ranks) -> dict[str, Any]:
    """The device, versions and settings of a run. `commit` is that of manyheads, null where it does not run from a
    checkout; it ends in `-dirty` where files of the checkout were changed."""
    gpu = ranks.device.type == "cuda"
    full = "fp32" if recipe.precision == "auto" else recipe.precision
    return {
        "device": torch.cuda.get_device_name(ranks.device) if gpu else platform.machine(),
        "cores": os.cpu_count(),
        "processes": ranks.world,
        "parallel": ranks.kind,
        "threads": torch.get_num_threads(),
        "precision": "bf16" if uses_half(recipe, ranks.device) else full,
        "compiled": uses_compile(recipe, ranks.device),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "manyheads": __version__,
        "commit": commit(),
    }


@cache
def commit(package: Path = PACKAGE) -> str | None:
    """The git commit of the checkout that a `package` runs from. None where it is installed, where another repository
    surrounds it, and where git is missing."""
    if git(package, "ls-files", "--error-unmatch", "__init__.py") is None:
        return None  # a virtual environment inside somebody's repository is not part of it
    return git(package, "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty")


def git(folder: Path, *args: str) -> str | None:
    """What git prints in a folder; None where it fails."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *args],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None
