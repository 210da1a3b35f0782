"""`manyheads zoo`: the named originals."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from manyheads.arch.controls import per_stage

from .numbers import in_layers, millions
from .tables import Column, show


def zoo(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the named originals. Each name can be used wherever a command takes a model."""
    from manyheads.arch import zoo as originals
    from manyheads.arch.controls import depths, head_dims, heads
    from manyheads.arch.count import params

    rows = []
    for name in originals.NAMES:
        arch = originals.get(name)
        rows.append(
            {
                "name": name,
                "family": arch.family,
                "params": params(arch).total,
                "non_embedding": in_layers(arch),
                "depth": depths(arch),
                "heads": heads(arch),
                "head_dim": head_dims(arch),
                "note": originals.note(name),
            }
        )
    if as_json:
        print(json.dumps(rows))
        return
    from rich.console import Console

    columns = [
        Column("name"),
        Column("layers", leave=1),
        Column("heads", leave=2),
        Column("of", leave=3),
        Column("parameters", right=True),
        Column("in layers", right=True, leave=4),
        Column("note", leave=5, note=True),
    ]
    cells = [
        (
            row["name"],
            per_stage(row["depth"]),
            per_stage(row["heads"]),
            per_stage(row["head_dim"]),
            millions(row["params"]),
            _of_language(row["non_embedding"]),
            row["note"],
        )
        for row in rows
    ]
    show(Console(), columns, cells)


def _of_language(layers: int | None) -> str:
    return "" if layers is None else millions(layers)
