"""Trained models of timm by their names (`timm:NAME`) or as folders that timm wrote (`timm:FOLDER`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError, first_line, nearest, optional
from manyheads.spec.serialise import read_json

from . import read_timm
from .foreign_source import WEIGHTS, ForeignModule, WeightFiles, described, pickled
from .no_pickle import weights_only

SAFE = {"pytorch_model.bin": WEIGHTS, "open_clip_pytorch_model.bin": "open_clip_model.safetensors"}
PICTURES = ("mean", "std", "interpolation", "crop_pct", "crop_mode", "label_names")
IN_A_FOLDER = ("architecture", "model_args")
CLASSES = 1000  # of the classifier that the record of a backbone without one has


def timm_files(name: str) -> WeightFiles:
    """The weights of `timm:NAME`, which are fetched or in the cache of the hub, or of `timm:FOLDER`."""
    folder = Path(name)
    if folder.is_dir():
        if not (folder / "config.json").is_file() or not (folder / WEIGHTS).is_file():
            raise UserError(
                f"timm:{name} holds no config.json with {WEIGHTS}, which timm's save_for_hf(..., "
                f"safe_serialization=True) writes{pickled(folder)}"
            )
        return described(name, folder, (folder / WEIGHTS,))
    timm = optional("timm", "manyheads[vision]")
    if not timm.is_model(name):
        hint = nearest(name.split(".")[0], timm.list_models()) or "; write a name of timm.list_models(), or a folder"
        raise UserError(f"timm {timm.__version__} has no model {name!r}{hint}")
    settings = timm.get_pretrained_cfg(name)
    if settings is None or not settings.hf_hub_id:
        raise UserError(f"timm {timm.__version__} has no trained weights of {name} on the hub; write a folder of them")
    file = settings.hf_hub_filename or WEIGHTS
    hub = optional("huggingface_hub", "manyheads[vision]")
    try:
        path = Path(hub.hf_hub_download(settings.hf_hub_id, SAFE.get(file, file)))
    except Exception as error:  # the hub's library has many kinds of errors
        raise UserError(f"the weights of timm's {name} cannot be fetched: {first_line(error)}") from None
    if path.suffix != ".safetensors":
        raise UserError(f"timm's {name} has its weights in {path.name}, which is no safetensors file and is not opened")
    return described(name, path.parent, (path,))


def timm_arch(files: WeightFiles) -> Arch:
    """The record of the model. A backbone without classes is read as a classifier of 1000."""
    with torch.device("meta"):
        model = _created(files, pretrained=False)
        if not getattr(model, "num_classes", 1):
            model = _created(files, pretrained=False, num_classes=CLASSES)
    own = getattr(model, "arch", None)  # of a manyheads model that timm holds
    return own if isinstance(own, Arch) else read_timm.read(model, files.name, _stated_size(files))


def _stated_size(files: WeightFiles) -> int | None:
    """The image size among the arguments in a folder's config.json."""
    size = (timm_config(files).get("model_args") or {}).get("img_size")
    return size if isinstance(size, int) else None


def timm_config(files: WeightFiles) -> dict[str, Any]:
    """The name of the architecture, its arguments, and what its images are like: mean, deviation, crop."""
    if Path(files.name).is_dir():
        config = read_json(files.folder / "config.json")
        config = config if isinstance(config, dict) else {}
        images, own = dict(config.get("pretrained_cfg") or {}), {key: config.get(key) for key in IN_A_FOLDER}
    else:
        timm = optional("timm", "manyheads[vision]")
        images, own = timm.get_pretrained_cfg(files.name).to_dict(), {"architecture": files.name.split(".")[0]}
    return {key: images[key] for key in PICTURES if images.get(key) is not None} | own


def timm_module(files: WeightFiles, dtype: torch.dtype) -> ForeignModule:
    """The model as timm builds it, with the weights of the files."""
    model = _created(files, pretrained=True).to(dtype).eval()
    return ForeignModule(model, "timm", unused=())


def _created(files: WeightFiles, *, pretrained: bool, **settings: Any) -> Any:
    timm = optional("timm", "manyheads[vision]")
    local = Path(files.name).is_dir()
    if local and '"manyheads"' in (files.folder / "config.json").read_text(errors="replace"):
        from . import timm as ours  # noqa: F401 (registers the architecture `manyheads`)
    if not local:
        settings["pretrained_cfg_overlay"] = {"file": str(files.files[0])}
    try:
        with weights_only():
            return timm.create_model(
                f"local-dir:{files.name}" if local else files.name, pretrained=pretrained, **settings
            )
    except UserError:
        raise
    except Exception as error:  # timm, on settings and files that nobody has checked before
        raise UserError(f"timm cannot load {files.name}: {first_line(error)}") from None
