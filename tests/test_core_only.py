"""`src/` imports with the core dependencies alone, on the oldest torch that is promised."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parents[1] / "src"
# fmt: off
OPTIONAL = (
    "timm", "torchvision", "transformers", "tokenizers", "matplotlib", "ray", "submitit", "lightning", "tensorboard",
    "wandb", "lm_eval", "scipy",
)
# fmt: on
APART = ("interop", "cli", "__main__.py")  # side doors need what they open; commands need typer
IMPORT = f"""
import importlib, sys
sys.path.insert(0, {str(SRC)!r})
sys.modules.update(dict.fromkeys({OPTIONAL!r}))  # an import of any of them now fails
for name in sys.argv[1:]:
    importlib.import_module(name)
"""


def modules() -> list[str]:
    """Every module of the package that the core has to carry."""
    files = [file.relative_to(SRC) for file in sorted(SRC.rglob("*.py"))]
    kept = [file for file in files if file.parts[1] not in APART]
    return [".".join(file.with_suffix("").parts).removesuffix(".__init__") for file in kept]


def imports() -> None:
    """Import them all in a new process, with every optional package out of reach."""
    done = subprocess.run([sys.executable, "-c", IMPORT, *modules()], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_src_imports_without_optional_packages() -> None:
    imports()


@pytest.mark.gpu
def test_src_imports_beside_cuda() -> None:
    import torch

    assert torch.cuda.is_available()
    imports()
