"""`manyheads zoo`: the named originals."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from manyheads.arch.controls import per_stage

from .numbers import in_layers, millions


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
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for title, width in (("name", 24), ("layers", 9), ("heads", 10), ("of", 11), ("parameters", 10), ("in layers", 9)):
        table.add_column(
            title, justify="right" if title in ("parameters", "in layers") else "left", no_wrap=True, min_width=width
        )
    table.add_column("", no_wrap=True, overflow="ellipsis")
    for row in rows:
        table.add_row(
            row["name"],
            per_stage(row["depth"]),
            per_stage(row["heads"]),
            per_stage(row["head_dim"]),
            millions(row["params"]),
            _of_language(row["non_embedding"]),
            row["note"],
        )
    Console().print(table)


def _of_language(layers: int | None) -> str:
    return "" if layers is None else millions(layers)
