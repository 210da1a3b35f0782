"""Records as JSON: written with a schema number, read back exactly, older schemas upgraded on the way in."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any

from . import parts
from .arch import SCHEMA, Arch, unstated_dialect
from .errors import UserError, nearest

KINDS: dict[str, type] = {
    name: kind for name, kind in vars(parts).items() if isinstance(kind, type) and is_dataclass(kind)
}
# schema -> how to make the next one of it; a file of any older schema walks through them in order
UPGRADERS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}


def to_dict(arch: Arch) -> dict[str, Any]:
    """`arch` as plain JSON values, schema first; every part says what it `is`."""
    shown = {"schema": arch.schema} | {
        f.name: _plain(getattr(arch, f.name)) for f in fields(arch) if f.name != "schema"
    }
    if arch.dialect == unstated_dialect(arch.family, arch.head):
        del shown["dialect"]
    return shown


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {"is": type(value).__name__} | {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    return value


def from_dict(data: Any) -> Arch:
    """The record that `to_dict` wrote, or that a person wrote by hand: wrong or missing fields are named."""
    if not isinstance(data, dict) or "family" not in data:
        raise UserError("this is not an architecture record: it has no `family`")
    schema = data.get("schema", 1)  # files are numbered from the first one on
    if not isinstance(schema, int) or schema > SCHEMA or schema < 1:
        raise UserError(f"schema {schema!r} is not one this version reads (1 to {SCHEMA}); a newer manyheads wrote it?")
    while schema < SCHEMA:
        data = UPGRADERS[schema](data)
        schema += 1
    if not isinstance(data.get("stages"), list):
        raise UserError(f"stages is {json.dumps(data.get('stages'))[:80]}; write a list of Stage")
    wanted = {field.name for field in fields(Arch)}
    _refuse_unknown(data, wanted, "the record")
    missing = sorted(wanted - data.keys() - {"schema", "dialect"})
    if missing:
        raise UserError(f"the record lacks {', '.join(missing)}")
    head = _part(data["head"], "head")
    return Arch(
        family=data["family"],
        embed=_part(data["embed"], "embed"),
        stages=_part(data["stages"], "stages"),
        head=head,
        dialect=data.get("dialect", unstated_dialect(data["family"], head)),
    )


def _part(value: Any, where: str) -> Any:
    if isinstance(value, list):
        return tuple(_part(item, f"{where}[{i}]") for i, item in enumerate(value))
    if not isinstance(value, dict):
        return value
    kind = value.get("is")
    if not isinstance(kind, str) or kind not in KINDS:
        known = nearest(str(kind), KINDS) or f"; known parts: {', '.join(KINDS)}"
        raise UserError(f'{where}: "is": {json.dumps(kind)} is no part of a model{known}')
    given = {name: _part(item, f"{where}.{name}") for name, item in value.items() if name != "is"}
    wanted = fields(KINDS[kind])
    _refuse_unknown(given, {field.name for field in wanted}, where)
    missing = [f.name for f in wanted if f.name not in given and f.default is MISSING]
    if missing:
        raise UserError(f"{where} ({kind}) lacks {', '.join(missing)}")
    return KINDS[kind](**given)


def _refuse_unknown(given: dict[str, Any], wanted: set[str], where: str) -> None:
    for name in given:
        if name not in wanted:
            hint = nearest(name, wanted) or f"; it takes {', '.join(sorted(wanted))}"
            raise UserError(f"{where} has no field {name!r}{hint}")


def save(arch: Arch, path: Path | str) -> None:
    """Write `arch` as JSON, replacing the file in one step."""
    target = Path(path)
    partial = target.with_name(target.name + ".partial")
    try:
        partial.write_text(json.dumps(to_dict(arch), indent=1) + "\n")
        partial.replace(target)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise UserError(f"{path} cannot be written: {error.strerror or error}") from None


def load(path: Path | str) -> Arch:
    """Read a record that `save` wrote."""
    return from_dict(read_json(path))


def read_json(path: Path | str) -> Any:
    """The JSON value in a file; a missing, unreadable or broken file is a sentence."""
    try:
        return json.loads(Path(path).read_text())
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not JSON: {error}") from None
    except RecursionError:
        raise UserError(f"{path} is nested too deeply to be a record") from None
