"""`manyheads audit`: every printed number of the paper beside what its stated configuration gives."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from manyheads.paper.audit import Audited
    from manyheads.paper.readings import Reading


def audit(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with every figure's configurations.")] = False,
) -> None:
    """Audit Tables 1-5, the memory column and the stated ranges of *Leaner Transformers* against exact counts."""
    if as_json:
        print(json.dumps(report()))
    else:
        _print()


def report() -> dict[str, Any]:
    """The whole audit as plain values."""
    from manyheads.arch.controls import depths, head_dims, heads, mlp_dims
    from manyheads.paper.audit import audit as audited
    from manyheads.paper.audit import memory, policies
    from manyheads.paper.figures import figures
    from manyheads.paper.rows import RECIPE
    from manyheads.paper.statements import statements

    return {
        "rows": [_row(item) for item in audited()],
        "memory": [
            {
                "id": m.row.id,
                "reading": m.reading.label,
                "images_per_gpu": m.images,
                "printed_gb": m.printed,
                "counted_gb": round(m.counted, 3),
                "overhead_gb": round(m.overhead, 3),
                "fits": m.fits,
                "note": m.note,
            }
            for m in memory()
        ],
        "statements": [
            {name: getattr(s, name) for name in ("id", "where", "printed", "counted", "holds", "reason")}
            for s in statements()
        ],
        "policies": policies(),
        "recipe": RECIPE,
        "figures": [
            {
                "id": f.id,
                "shows": f.shows,
                "own_grid": f.own,
                "points": [
                    {
                        "label": p.label,
                        "params": p.params,
                        "printed": p.printed,
                        "depth": depths(p.arch),
                        "heads": heads(p.arch),
                        "head_dim": head_dims(p.arch),
                        "mlp_dim": mlp_dims(p.arch),
                    }
                    for p in f.points
                ],
            }
            for f in figures()
        ],
    }


def _row(item: Audited) -> dict[str, Any]:
    row = item.row
    return {
        "id": row.id,
        "table": row.table,
        "model": row.model.name,
        "stated": row.stated,
        "printed": row.params,
        "unit": row.unit,
        "verdict": item.verdict,
        "reason": item.reason,
        "likely": _reading(item.likely),
        "as_stated": [_reading(r) for r in item.stated],
        "readings": [_reading(r) for r in item.matches],
        "scores": dict(row.scores),
        "note": row.note,
    }


def _reading(reading: Reading) -> dict[str, Any]:
    return {
        "label": reading.label,
        "policy": reading.policy,
        "params": reading.params,
        "changes": list(reading.changes),
    }


def _print() -> None:
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table

    from manyheads.paper.audit import audit as audited
    from manyheads.paper.audit import memory, show
    from manyheads.paper.statements import statements

    console = Console()
    console.print("[bold]Parameters, Tables 1-5[/]  as printed, and exactly what the stated configuration gives")
    last = 0
    for item in audited():
        row = item.row
        if row.table != last:
            console.print(f"\nTable {row.table}", highlight=False)
            last = row.table
        colour = {"match": "green", "mismatch": "red"}.get(item.verdict, "yellow")
        printed = f"({row.change})" if row.params is None and row.change == "same" else "-"
        printed = printed if row.params is None else f"{row.params} {row.unit}"
        policy = f", most likely {item.likely.policy}" if row.role == "lean" else ""
        console.print(
            f"  [bold]{row.id}[/]  {row.stated}: printed [bold]{printed}[/], [{colour}]{item.verdict}[/]{policy}",
            highlight=False,
        )
        gives = " | ".join(f"{r.label} {r.params:,}" for r in item.stated)
        console.print(Padding(f"{gives}\n[dim]{item.reason}[/]", (0, 0, 0, 6)), highlight=False)

    console.print("\n[bold]Readings[/]  models that print the same figure but are not what the row states")
    for item in audited():
        for reading in item.matches:
            if reading.changes:
                console.print(
                    f"  {item.row.id:22} {show(reading.params, item.row.unit):>10}  {reading.label} ({reading.policy})",
                    highlight=False,
                )

    console.print("\n[bold]Memory, Tables 4 and 5[/]  printed/8 and float32 training with attention maps, GB a GPU")
    table = _table(Table, "row", "images/GPU", "printed/8", "counted", "left over", "note")
    for m in memory():
        table.add_row(
            m.row.id,
            str(m.images),
            f"{m.printed:.2f}",
            f"{m.counted:.2f}",
            f"{m.overhead:+.2f}",
            m.note,
            style="" if m.fits else "red",
        )
    console.print(table)
    console.print("  Tables 1 and 2 print memory without micro-batch or counter: not checkable.", highlight=False)

    console.print("\n[bold]Stated numbers[/]")
    table = _table(Table, "what", "where", "printed", "counted", "holds", "why")
    for s in statements():
        table.add_row(s.id, s.where, s.printed, s.counted, "[green]yes[/]" if s.holds else "[red]no[/]", s.reason)
    console.print(table)
    _verdict(console)


def _table(table: Any, *titles: str) -> Any:
    grid = table(box=None, header_style="bold", pad_edge=False)
    for title in titles:
        grid.add_column(
            title,
            justify="right" if title in ("counted", "left over", "printed/8") else "left",
            no_wrap=title == "row",
            overflow="fold",
        )
    return grid


def _verdict(console: Any) -> None:
    from manyheads.paper.audit import audit as audited
    from manyheads.paper.audit import policies

    verdicts = Counter(item.verdict for item in audited())
    pairs = policies()
    split = [pair for pair, policy in pairs.items() if policy == "split"]
    text = ", ".join(f"{count} {word}" for word, count in verdicts.most_common())
    console.print(
        f"\n{sum(verdicts.values())} rows: {text}. The text prescribes a fixed head_dim; by their counts "
        f"{len(split)} of the {len(pairs)} redesigned vision and language models most likely split the width "
        f"instead: {', '.join(split)}.",
        highlight=False,
    )
