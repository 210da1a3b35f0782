"""A trained model written as a folder of transformers or of timm; the way back of `door.convert`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import nn

from manyheads.models import store
from manyheads.models.stream import write_tensors
from manyheads.models.twins.hf_types import MAPS
from manyheads.models.twins.tensors import back
from manyheads.spec import files as json_files
from manyheads.spec import serialise as record
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.files import unwritten

from . import door
from .foreign_source import auto_class, silence
from .foreign_timm import PICTURES
from .new_folder import new_folder, refuse_existing
from .read_hf import from_config
from .twin_state import mapped

KINDS = ("hf", "timm")


@dataclass(frozen=True)
class Exported:
    """The folder, the class or architecture in it, its parameters, and the line of Python that loads it."""

    folder: str
    kind: str
    parameters: int
    dtype: str
    line: str


def export(name: str, out: Path | str, *, to: str = "hf", stock: bool = False) -> Exported:
    """Write the trained model that `name` stands for (`door.trained`) as a folder for `to`, `hf` or `timm`.

    With `stock`, the folder is one of the library's own classes and needs no manyheads; a record that none of them can
    express is refused. The numbers keep their type. The folder appears when it is whole."""
    if to not in KINDS:
        raise UserError(f"--to {to}: write one of {', '.join(KINDS)}")
    out = Path(out)
    refuse_existing(out)
    source = door.trained(name)
    model = door.module(source, dtype=getattr(torch, source.report.dtype))
    with new_folder(out) as place:
        write = _hf if to == "hf" else _timm
        kind, line = write(model, source, place, stock)
    count = sum(parameter.numel() for parameter in model.parameters())
    return Exported(str(out), kind, count, source.report.dtype, line.format(out=out))


def _hf(model: nn.Module, source: door.Trained, place: Path, stock: bool) -> tuple[str, str]:
    from . import hf

    twin = (as_it_was(model, source.report.config) or hf.stock_model(model)) if stock else hf.wrap(model)
    try:
        with silence():
            twin.save_pretrained(place)
    except SafetensorError as error:
        raise unwritten(place, store.as_os_error(error)) from error
    for weights in place.glob("*.safetensors"):  # safetensors makes them readable by their owner alone
        weights.chmod((place / "config.json").stat().st_mode)
    config = record.read_json(place / "config.json") | _hf_keys(source)
    json_files.replace(place / "config.json", json_files.dump(config))
    door.write_sides(source, place)
    arch = model.arch
    assert isinstance(arch, Arch)
    auto = auto_class(arch)
    first = "" if stock else "import manyheads.interop.hf; "
    return config["architectures"][0], f"{first}from transformers import {auto}; {auto}.from_pretrained('{{out}}')"


def as_it_was(model: nn.Module, config: Mapping[str, Any]) -> Any:
    """The model as an object of the class that `config`, the configuration it was read from, names; None where the
    record is no longer what that configuration says."""
    from .hf_config import transformers

    arch = model.arch
    assert isinstance(arch, Arch)
    kind = str(config.get("model_type"))
    if kind not in MAPS or from_config(config) != arch:
        return None
    made = getattr(transformers, config["architectures"][0])
    twin = made(made.config_class.from_dict(dict(config))).to(next(model.parameters()).dtype)
    state = twin.state_dict()
    entries = list(mapped(arch, twin, "hf").entries.values())
    with torch.no_grad():
        for name, tensor in back(entries, model.state_dict()).items():
            state[name].copy_(tensor)
    return twin.eval()


def _hf_keys(source: door.Trained) -> dict[str, Any]:
    """End tokens and names of classes, as the model's first configuration had them."""
    kept = {key: value for key, value in source.report.config.items() if key in door.KEPT and value is not None}
    classes = getattr(source.arch.head, "classes", 0)
    if len(kept.get("id2label") or {}) != classes:  # another number of classes was trained since
        kept = {key: value for key, value in kept.items() if not key.endswith(("2label", "2id"))}
    return kept


def _timm(model: nn.Module, source: door.Trained, place: Path, stock: bool) -> tuple[str, str]:
    from . import timm, timm_stock

    arch = model.arch
    assert isinstance(arch, Arch)
    settings = timm.pretrained_config(arch)
    settings |= {key: value for key, value in source.report.config.items() if key in PICTURES}
    name, arguments, state = "manyheads", {"arch": record.to_dict(arch)}, model.state_dict()
    if stock:
        name, arguments, state = timm_stock.stock_state(model, source.report.config)
        settings.pop("classifier")  # the architecture's own
        settings.pop("fixed_input_size")
    config = {
        "architecture": name,
        "num_classes": settings["num_classes"],
        "num_features": arch.stages[-1].width,
        "pretrained_cfg": settings,
        "model_args": arguments,
    }
    (place / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    layout = {each: (tensor.dtype, tuple(tensor.shape)) for each, tensor in state.items()}
    write_tensors(place / store.WEIGHTS, layout, state.__getitem__)
    first = "import timm" if stock else "import timm, manyheads.interop.timm"
    return name, f"{first}; timm.create_model('local-dir:{{out}}', pretrained=True)"
