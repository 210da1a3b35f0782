"""`manyheads runs`: list the runs below a folder or in a pack, and the state of each."""

from __future__ import annotations

import json
import os
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manyheads.spec.errors import UserError

from .numbers import in_layers, millions
from .tables import Column, show

if TYPE_CHECKING:
    from manyheads.runs import RunFolder

COLOURS = {
    "done": "green",
    "running": "cyan",
    "new": "",
    "stopped": "yellow",
    "failed": "red",
    "damaged": "red",
    "foreign": "dim",
}


def runs(
    root: Annotated[Path, typer.Argument(help="Folder to look in, at any depth; or a pack.")] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List runs with state, arm, parameters, steps and result; damaged and foreign ones with what is wrong."""
    from manyheads.runs import find

    if not os.path.exists(root):
        raise UserError(f"{root} is no folder and no pack; give the one that runs were written to")
    rows = [_row(folder, root) for folder in find(root)]
    if as_json:
        print(json.dumps(rows))
    else:
        _print(rows, root)


def _row(folder: RunFolder, root: Path) -> dict[str, Any]:
    from manyheads.arch.count import params

    status, spec = folder.status or {}, folder.spec
    metric, value = headline(folder.result)
    return {
        "path": str(folder.path),
        "name": os.path.relpath(folder.path, root),
        "state": folder.state,
        "label": spec.label if spec else {},
        "family": spec.arch.family if spec else None,
        "params": params(spec.arch).total if spec else None,
        "non_embedding": in_layers(spec.arch) if spec else None,
        "seed": spec.seed if spec else None,
        "step": _number(status.get("step")),
        "total": _number(status.get("total")),
        "progress": _number(status.get("progress")),
        "metric": metric,
        "value": value,
        "updated": status.get("updated"),
        "message": str(status.get("message") or ""),
        "problem": folder.problem,
        "pack": None if folder.packed is None else str(folder.packed.file),
        "also": [str(path) for path in folder.also],
    }


def headline(result: dict[str, Any] | None) -> tuple[str | None, float | None]:
    """The metric that decides, by the result itself, and its final value."""
    match result:
        case {"better": [str(metric), *_], "score": dict(score)}:
            return metric, _number(score.get(metric))
    return None, None


def _number(value: Any) -> Any:
    return value if isinstance(value, int | float) else None  # a status may have been edited by hand


def _print(rows: list[dict[str, Any]], root: Path) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console()
    if not rows:
        console.print(Text(f"no run folders in {_clean(str(root))}"))
        return
    language = any(row["non_embedding"] is not None for row in rows)
    sizes = ("params", "non_embedding") if language else ("params",)
    columns = [
        Column("run"),
        Column("state", leave=1),
        Column("arm", leave=5),
        Column("step", right=True, leave=2),
        Column("result"),
        Column("parameters", right=True, leave=3),
        *([Column("in layers", right=True, leave=4)] if language else []),
        Column("updated", leave=6),
    ]
    now = datetime.now(UTC)
    cells = []
    for row in rows:
        arm = row["label"].get("arm") or row["family"] or ""
        texts = [row["name"], row["state"], str(arm), _steps(row), _score(row), *(_size(row[name]) for name in sizes)]
        cells.append([_clean(text) for text in (*texts, _ago(row["updated"], now))])
    styles = [["", COLOURS[row["state"]], *[""] * (len(columns) - 2)] for row in rows]
    show(console, columns, cells, styles)
    for row in rows:
        why = row["problem"] or (row["message"] if row["state"] == "failed" else "")
        if why:
            console.print(Text.assemble("\n", (_clean(row["name"]), "bold"), ": ", _clean(why)))
    for row in rows:
        if row["also"]:
            console.print(Text.assemble("\n", (_clean(row["name"]), "bold"), ": also ", _clean(", ".join(row["also"]))))
    states = Counter(row["state"] for row in rows)
    console.print(Text("\n" + ", ".join(f"{states[state]} {state}" for state in COLOURS if states[state])))


def _steps(row: dict[str, Any]) -> str:
    if row["step"] is None:
        return ""
    if row["total"] is not None:
        return f"{row['step']}/{row['total']}"
    # a budget in seconds has no last step
    part = "" if row["progress"] is None else f" ({100 * row['progress']:.0f} %)"
    return f"{row['step']}{part}"


def _score(row: dict[str, Any]) -> str:
    return "" if row["value"] is None else f"{row['metric']} {row['value']:.4g}"


def _size(count: int | None) -> str:
    return "" if count is None else millions(count)


def _ago(updated: Any, now: datetime) -> str:
    try:
        then = datetime.fromisoformat(updated)
        seconds = (now - then).total_seconds()
    except (TypeError, ValueError):
        return ""
    if seconds < 120:
        return f"{max(0, seconds):.0f} s ago"
    if seconds < 2 * 3600:
        return f"{seconds / 60:.0f} min ago"
    return f"{seconds / 3600:.0f} h ago" if seconds < 48 * 3600 else f"{then:%Y-%m-%d}"


def _clean(text: str) -> str:
    """`text` without characters that a terminal would obey or cannot write."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
