"""From the name of a model to its record: a zoo name, a row of the paper, a saved record, a run, a timm or Hugging
Face model."""

from __future__ import annotations

import re
from pathlib import Path

from manyheads.arch import zoo
from manyheads.spec import serialise as record
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError, first_line, nearest, optional
from manyheads.spec.field_checks import shown

FORMS = (
    "a zoo name (`manyheads zoo`), paper:ROW (`manyheads audit`), a saved arch.json, hf:FOLDER or a config.json, "
    "timm:NAME or run:FOLDER"
)
HUB = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")  # OWNER/NAME
# names as timm gives them: a size in full, or the patch and the image
TIMM = re.compile(
    r"(vit|deit|xcit|tnt|volo|davit)\w*_(tiny|nano|small|medium|base|large|huge|\w*patch\d+|p\d+|\d{3})(_\w+)?(\.\w+)?"
)


def resolve(name: str) -> Arch:
    """The record that `name` stands for."""
    if not isinstance(name, str):
        raise UserError(f"the model is {shown(name)}; write an Arch or a name: {FORMS}")
    prefix, _, rest = name.partition(":")
    if prefix == "paper" and rest:
        return _paper(rest)
    if prefix == "timm" and rest:
        from .read_timm import named

        return named(rest)
    if prefix == "run" and rest:
        return _run(Path(rest))
    path = Path(rest if prefix == "hf" and rest else name)
    if name in zoo.NAMES:
        return zoo.get(name)
    if len(path.name) > 255 or "\0" in name:  # no file can have this name
        raise UserError(f"no model is called {name[:60]!r}...; write {FORMS}")
    if path.is_dir():
        files = [path / "arch.json", path / "config.json"]
        path = next((file for file in files if file.is_file()), path)
        if path.is_dir():
            raise UserError(f"{name} holds neither arch.json nor config.json")
    if prefix == "hf" and rest and not path.exists() and path.suffix != ".json":
        return _hub(rest)
    if path.suffix == ".json" or path.is_file() or prefix == "hf":
        return _file(path)
    if TIMM.fullmatch(name):  # such as vit_base_patch16_224, without timm: before it
        from .read_timm import named

        return named(name)
    close = nearest(name, zoo.NAMES)
    hub = f"hf:{name} for a model of the Hugging Face hub, or " if HUB.fullmatch(name) else ""
    raise UserError(f"no model is called {name!r}{close}{' Write' if close else '; write'} {hub}{FORMS}")


def _file(path: Path) -> Arch:
    """A record as we save it, or inside the config.json of transformers or of timm."""
    data = record.read_json(path)
    if isinstance(data, dict) and "model_type" in data:
        from .read_hf import from_config

        return record.arch_from_dict(data.get("arch")) if data["model_type"] == "manyheads" else from_config(data)
    if isinstance(data, dict) and "model_args" in data:  # written by `--emit timm`
        given = data["model_args"]
        return record.arch_from_dict(given.get("arch") if isinstance(given, dict) else None)
    return record.arch_from_dict(data)


def _paper(row: str) -> Arch:
    """The most likely reading of a row of the paper's tables."""
    from manyheads.paper.audit import likely
    from manyheads.paper.rows import BY_ID

    if row not in BY_ID:
        raise UserError(f"the paper has no row {row!r}{nearest(row, BY_ID) or ';'} `manyheads audit` lists the rows")
    return likely(BY_ID[row]).arch


def _run(folder: Path) -> Arch:
    """The model that a run trains: the one it saved, or else the one in its spec."""
    if (folder / "model" / "arch.json").is_file():
        return record.load(folder / "model" / "arch.json")
    if not (folder / "spec.json").is_file():
        raise UserError(f"run:{folder} is not a run: it has neither model/arch.json nor spec.json")
    spec = record.read_json(folder / "spec.json")
    return record.arch_from_dict(spec.get("arch") if isinstance(spec, dict) else None)


def _hub(name: str) -> Arch:
    """A model of the Hugging Face hub, or of its cache on this machine, by its configuration."""
    from .read_hf import from_config

    transformers = optional("transformers", "manyheads[hf]")
    try:
        config = transformers.AutoConfig.from_pretrained(name, trust_remote_code=False)
    except Exception as error:  # transformers, on a name and a configuration that nobody has checked before
        why = first_line(error)
        raise UserError(f"hf:{name} is not a folder here, and transformers cannot fetch it: {why}") from None
    return from_config(config.to_dict())
