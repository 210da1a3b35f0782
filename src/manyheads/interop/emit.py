"""A design written as files that run elsewhere: a folder for timm, a folder for transformers, or Python source.

`manyheads plan --emit KIND` calls this.
"""

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
# the base models' recipe of Table 6 (2505.20802), as arguments of timm's train.py
TABLE6 = (
    "--epochs 300 --batch-size 128 --opt adamw --lr 3e-3 --weight-decay 0.3 --warmup-epochs 20 --warmup-lr 1e-5 "
    "--smoothing 0.1 --mixup 0.8 --cutmix 1.0 --drop-path 0.1 --aa rand-m9-mstd0.5 --amp "
    "--amp-dtype bfloat16"
)
LARGEST = 500_000_000  # parameters: initial weights are written for models up to this size


def emit(arch: Arch, kind: str, folder: Path, origin: str) -> dict[str, Any]:
    """Write `arch` under `folder`. Returns the kind, the folder, and the lines that a user types to use it."""
    if kind not in KINDS:
        raise UserError(f"--emit {kind}: write one of {', '.join(KINDS)}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        match kind:
            case "timm":
                lines = _timm(arch, folder)
            case "hf":
                lines = _hf(arch, folder)
            case _:
                lines = _python(arch, folder, origin)
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror or error}") from None
    return {"kind": kind, "folder": str(folder), "lines": lines}


def _timm(arch: Arch, folder: Path) -> list[str]:
    from .timm import pretrained_config

    settings = pretrained_config(arch)
    config = {
        "architecture": "manyheads",
        "num_classes": settings["num_classes"],
        "num_features": arch.stages[-1].width,
        "pretrained_cfg": settings,
        "model_args": {"arch": record.to_dict(arch)},
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    train = (
        f"train.py DATA --device-modules manyheads.interop.timm --model local-dir:{folder} --input-size "
        f"{' '.join(map(str, settings['input_size']))} --num-classes {settings['num_classes']} {TABLE6}"
    )
    return [
        f"in Python:  import timm, manyheads.interop.timm; model = timm.create_model('local-dir:{folder}')",
        f"timm's own script, 8 GPUs:  torchrun --nproc_per_node=8 {train}",
    ]


def _hf(arch: Arch, folder: Path) -> list[str]:
    from .hf import ManyheadsConfig, class_for, export

    auto = class_for(arch).__name__.replace("Manyheads", "AutoModel")
    if params(arch).total <= LARGEST:
        export(arch, folder, seed=0)
        return [
            f"in Python:  import manyheads.interop.hf; from transformers import {auto}; "
            f"model = {auto}.from_pretrained('{folder}')",
            "the weights are initial ones (seed 0)",
        ]
    ManyheadsConfig(arch=arch).save_pretrained(folder)
    return [
        f"in Python:  import manyheads.interop.hf; from transformers import AutoConfig, {auto}; "
        f"model = {auto}.from_config(AutoConfig.from_pretrained('{folder}'))",
        f"no weights were written, since the model has {params(arch).total / 1e9:.1f} B parameters",
    ]


def _python(arch: Arch, folder: Path, origin: str) -> list[str]:
    text = pformat(arch, width=110, sort_dicts=False)
    used = sorted(name for name in record.PARTS if f"{name}(" in text and name in vars(parts))
    file = folder / "redesign.py"
    file.write_text(
        f'"""A redesign of {origin}, {params(arch).total:,} parameters."""\n\n'
        f"from manyheads.spec.parts import {', '.join(used)}\nfrom manyheads.spec.arch import Arch\n\n"
        f"ARCH = {text}\n"
    )
    return [f"in Python:  from manyheads import build; from redesign import ARCH; model = build(ARCH)   (in {folder})"]
