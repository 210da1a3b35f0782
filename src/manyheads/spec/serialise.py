"""Records as JSON and back: every record of the project is written and read here, and nowhere else.

    to_dict(record)                 plain JSON values, every field stated
    from_dict(kind, data, where)    the record again; what is unknown, missing or of a wrong type is named

A record that stands where others could stand says what it `is`: {"is": "Patch", "image": 224, ...}. The records of a
recipe stand where no others can, and do not. A field marked `later` was added when files of its record already existed:
at its default it is not written, so that a record means the same, and has the same hash, in every version.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args

from . import files, parts
from .arch import SCHEMA, Arch, unstated_dialect
from .errors import UserError, nearest
from .field_checks import hints
from .json_text import parse
from .task import Task, TaskPart

T = TypeVar("T")

PARTS: dict[str, type] = {
    name: kind for name, kind in vars(parts).items() if isinstance(kind, type) and is_dataclass(kind)
}
# schema -> a function that gives the next schema; an older architecture passes through them in order
UPGRADERS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}


def to_dict(record: Any) -> dict[str, Any]:
    """`record`, and the records inside it, as plain JSON values with their fields in order."""
    kind = type(record)
    written = {f.name: _plain(getattr(record, f.name)) for f in fields(record) if not _left_out(record, f)}
    if "schema" in written:  # it says how to read what follows
        written = {"schema": written.pop("schema")} | written
    tagged = isinstance(record, Task | TaskPart) or PARTS.get(kind.__name__) is kind
    return ({"is": kind.__name__} if tagged else {}) | written


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return to_dict(value) if is_dataclass(value) else value


def _left_out(record: Any, field: Field[Any]) -> bool:
    if isinstance(record, Arch) and field.name == "dialect":
        return record.dialect == unstated_dialect(record.family, record.head)
    return bool(field.metadata.get("later")) and getattr(record, field.name) == field.default


def from_dict(kind: type[T], data: Any, where: str) -> T:
    """The record of class `kind` that `to_dict` wrote, or that a person wrote by hand: what is left out keeps its
    default. `where` is the record's name in messages."""
    if not isinstance(data, dict):
        raise UserError(f"{where} is {_short(data)}; write an object with the fields of {kind.__name__}")
    values = {name: value for name, value in data.items() if name != "is"}
    check_names(kind, values, where + (f" ({kind.__name__})" if "is" in data else ""))
    of: Any = kind
    kinds = hints(of)
    return kind(**{name: _read(kinds[name], value, f"{where}.{name}") for name, value in values.items()})


def check_names(kind: type, values: Mapping[str, Any], where: str) -> None:
    """Refuse fields that a record of class `kind` does not have, and the lack of one that has no default."""
    by_name = {field.name: field for field in fields(kind)}
    for name in values:
        if name not in by_name:
            hint = nearest(name, by_name) or f"; it takes {', '.join(by_name)}"
            raise UserError(f"{where} has no field {name!r}{hint}")
    missing = [
        name
        for name, field in by_name.items()
        if name not in values and field.default is MISSING and field.default_factory is MISSING
    ]
    if missing:
        raise UserError(f"{where} lacks {', '.join(missing)}")


def _read(hint: Any, value: Any, where: str) -> Any:
    """`value` where the annotation `hint` stands."""
    if isinstance(value, list):
        options = get_args(hint)
        return tuple(_read(options[0] if options else None, item, f"{where}[{i}]") for i, item in enumerate(value))
    if not isinstance(value, dict):
        return value
    untagged = [kind for kind in (hint, *get_args(hint)) if _is_untagged(kind)]
    if untagged and "is" not in value:
        return from_dict(untagged[0], value, where)
    task_parts = {kind.__name__: kind for kind in TaskPart.__subclasses__()}
    return tagged(PARTS | task_parts, value, where, "no record")


def _is_untagged(kind: Any) -> bool:
    return is_dataclass(kind) and isinstance(kind, type) and not issubclass(kind, (Task, TaskPart, *PARTS.values()))


def tagged(kinds: Mapping[str, type], value: dict[str, Any], where: str, wrong: str) -> Any:
    """The record of the kind that `value` says it `is`, one of `kinds`."""
    name = value.get("is")
    if not isinstance(name, str) or name not in kinds:
        hint = (isinstance(name, str) and nearest(name, kinds)) or f"; known: {', '.join(kinds)}"
        raise UserError(f'{where}: "is": {_short(name)} is {wrong}{hint}')
    return from_dict(kinds[name], value, where)


# ----------------------------------------------------------------------------------------------------- architectures
def arch_from_dict(data: Any) -> Arch:
    """The architecture in a JSON object, of this schema or an older one."""
    if not isinstance(data, dict) or "family" not in data:
        raise UserError("this is not an architecture record: it has no `family`")
    schema = data.get("schema", 1)  # files are numbered from the first one on
    if not isinstance(schema, int) or schema > SCHEMA or schema < 1:
        raise UserError(f"schema {schema!r} is not one this version reads (1 to {SCHEMA}); a newer manyheads wrote it?")
    while schema < SCHEMA:
        data = UPGRADERS[schema](data)
        schema += 1
    if not isinstance(data.get("stages"), list):
        raise UserError(f"stages is {_short(data.get('stages'))}; write a list of Stage")
    check_names(Arch, data, "the record")
    kinds = hints(Arch)
    values = {name: _read(kinds[name], value, name) for name, value in data.items() if name != "schema"}
    return Arch(**{"dialect": unstated_dialect(values["family"], values["head"])} | values)


def save(arch: Arch, path: Path | str) -> None:
    """Write `arch` as JSON, replacing the file in one step."""
    files.replace(Path(path), files.dump(to_dict(arch)))


def load(path: Path | str) -> Arch:
    """Read an architecture that `save` wrote."""
    return arch_from_dict(read_json(path))


def read_json(path: Path | str) -> Any:
    """The JSON value in a file; a missing, unreadable or broken file is a sentence."""
    try:
        return parse(files.read_bytes(path), finite=False)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise UserError(f"{path} is not JSON: {error}") from None


def _short(value: Any) -> str:
    return json.dumps(value, default=str)[:80]
