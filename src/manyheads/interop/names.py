"""From what a person types to a record: a zoo name, `paper:` row, saved record, Hugging Face configuration."""

from __future__ import annotations

from pathlib import Path

from manyheads.arch import record, zoo
from manyheads.arch.errors import UserError, nearest
from manyheads.arch.spec import Arch

FORMS = "a zoo name (`manyheads zoo`), paper:ROW (`manyheads audit`), a saved arch.json, hf:FOLDER or a config.json"


def resolve(name: str) -> Arch:
    """The record that `name` stands for."""
    prefix, _, rest = name.partition(":")
    if prefix == "paper" and rest:
        return _paper(rest)
    path = Path(rest if prefix == "hf" and rest else name)
    if name in zoo.NAMES:
        return zoo.get(name)
    if len(path.name) > 255 or "\0" in name:
        raise UserError(f"no model is called {name[:60]!r}...; write {FORMS}")
    if path.is_dir():
        files = [path / "arch.json", path / "config.json"]
        path = next((file for file in files if file.is_file()), path)
        if path.is_dir():
            raise UserError(f"{name} holds neither arch.json nor config.json")
    if path.suffix == ".json" or path.is_file() or prefix == "hf":
        data = record.read_json(path)
        if isinstance(data, dict) and "model_type" in data:
            from .hf_config import from_config

            return from_config(data)
        return record.from_dict(data)
    raise UserError(f"no model is called {name!r}{nearest(name, zoo.NAMES) or ';'} Write {FORMS}")


def _paper(row: str) -> Arch:
    """The most likely reading of a row of the paper's tables."""
    from manyheads.arch.audit import likely
    from manyheads.arch.paper import BY_ID

    if row not in BY_ID:
        raise UserError(f"the paper has no row {row!r}{nearest(row, BY_ID) or ';'} `manyheads audit` lists the rows")
    return likely(BY_ID[row]).arch
