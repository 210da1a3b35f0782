"""A design as something that runs: a timm folder, a Hugging Face folder, a Python record."""

from __future__ import annotations

import json
from pathlib import Path
from pprint import pformat
from typing import Any

from manyheads.arch.count import params
from manyheads.spec import parts
from manyheads.spec import serialise as record
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError

KINDS = ("timm", "hf", "python")
# Table 6 of the first paper, base models, in the words of timm's train.py
RECIPE = (
    "--epochs 300 --batch-size 128 --opt adamw --lr 3e-3 --weight-decay 0.3 --warmup-epochs 20 --warmup-lr 1e-5 "
    "--smoothing 0.1 --mixup 0.8 --cutmix 1.0 --drop-path 0.1 --aa rand-m9-mstd0.5 --amp "
    "--amp-dtype bfloat16"
)
LARGEST = 500_000_000  # parameters: beyond, a folder gets no initial weights


def emit(arch: Arch, kind: str, folder: Path, origin: str) -> dict[str, Any]:
    """Write `arch` under `folder`; what was written, and the lines that use it."""
    if kind not in KINDS:
        raise UserError(f"--emit {kind}: write one of {', '.join(KINDS)}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lines = {"timm": _timm, "hf": _hf, "python": _python}[kind](arch, folder, origin)
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror or error}") from None
    return {"kind": kind, "folder": str(folder), "lines": lines}


def _timm(arch: Arch, folder: Path, origin: str) -> list[str]:
    from .timm import settings

    found = settings(arch)
    config = {
        "architecture": "manyheads",
        "num_classes": found["num_classes"],
        "num_features": arch.stages[-1].width,
        "pretrained_cfg": found,
        "model_args": {"arch": record.to_dict(arch)},
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    size = found["input_size"]
    train = (
        f"train.py DATA --device-modules manyheads.interop.timm --model local-dir:{folder} --input-size "
        f"{' '.join(map(str, size))} --num-classes {found['num_classes']} {RECIPE}"
    )
    return [
        f"in Python:  import timm, manyheads.interop.timm; model = timm.create_model('local-dir:{folder}')",
        f"timm's own script, 8 GPUs:  torchrun --nproc_per_node=8 {train}",
    ]


def _hf(arch: Arch, folder: Path, origin: str) -> list[str]:
    from .hf import ManyheadsConfig, class_for, export

    auto = class_for(arch).__name__.replace("Manyheads", "AutoModel")
    if params(arch).total <= LARGEST:
        export(arch, folder, seed=0)
        return [
            f"in Python:  import manyheads.interop.hf; from transformers import {auto}; "
            f"model = {auto}.from_pretrained('{folder}')",
            "its weights are initial ones (seed 0)",
        ]
    ManyheadsConfig(arch=arch).save_pretrained(folder)
    return [
        f"in Python:  import manyheads.interop.hf; from transformers import AutoConfig, {auto}; "
        f"model = {auto}.from_config(AutoConfig.from_pretrained('{folder}'))",
        f"no weights were written: {params(arch).total / 1e9:.1f} B parameters",
    ]


def _python(arch: Arch, folder: Path, origin: str) -> list[str]:
    text = pformat(arch, width=110, sort_dicts=False)
    used = sorted(name for name in record.KINDS if f"{name}(" in text and hasattr(parts, name))
    file = folder / "redesign.py"
    file.write_text(
        f'"""A redesign of {origin}, {params(arch).total:,} parameters."""\n\n'
        f"from manyheads.spec.parts import {', '.join(used)}\nfrom manyheads.spec.arch import Arch\n\n"
        f"ARCH = {text}\n"
    )
    return [f"in Python:  from manyheads import build; from redesign import ARCH; model = build(ARCH)   (in {folder})"]
