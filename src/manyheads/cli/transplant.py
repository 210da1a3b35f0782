"""`manyheads transplant`: a lean model from the weights of a trained deep one."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from manyheads.spec.errors import UserError, nearest

from .numbers import size

if TYPE_CHECKING:
    from manyheads.interop.transplanted import Measured

WAYS = ("auto", "fold", "drop")


def transplant(
    model: Annotated[
        str, typer.Argument(help="Trained model: hf:FOLDER, timm:NAME, run:FOLDER, or a folder of `manyheads convert`.")
    ],
    out: Annotated[Path, typer.Option(help="New folder for the lean model.")],
    depth: Annotated[int | None, typer.Option(help="Layers of the lean model. Default: all.")] = None,
    how: Annotated[
        str,
        typer.Option(
            help="fold: two layers become one with the heads of both; drop: a layer is left out; auto: what costs less."
        ),
    ] = "auto",
    params: Annotated[
        str | None, typer.Option(help="Cut heads and MLP units to this many parameters: 0.8x, 100M. Default: no cut.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Text file, or folder of images, on which each step is measured.")
    ] = None,
    amount: Annotated[int, typer.Option(help="Tokens or images of --data that are used.")] = 2048,
    by_stream: Annotated[
        bool,
        typer.Option(
            "--by-stream",
            help="Choose by the angle by which a step turns the residual stream; faster, needs no labels.",
        ),
    ] = False,
    beam: Annotated[int, typer.Option(help="Arrangements of layers that the search keeps at each depth.")] = 1,
    shortlist: Annotated[
        int,
        typer.Option(
            help="Candidates whose loss is measured to remove a layer: those that turn the stream least; 0: all."
        ),
    ] = 8,
    uniform: Annotated[
        bool, typer.Option("--uniform", help="Add heads and MLP units of zero weights until all layers have one size.")
    ] = False,
    again: Annotated[
        Path | None,
        typer.Option(help="Repeat the steps of this transplant.json, or of the folder that holds it; needs no data."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Fold or drop layers of a trained model, cut it to a size, and write what is left as a model.

    Example: manyheads transplant hf:FOLDER --depth 22 --data text.txt --out lean"""
    from manyheads.interop.new_folder import refuse_existing
    from manyheads.interop.transplanted import read_transplant
    from manyheads.interop.transplanted import transplant as transplanted

    if how not in WAYS:
        raise UserError(f"--how {how}{nearest(how, WAYS)}; write one of {', '.join(WAYS)}")
    for option, value, least in (("--amount", amount, 1), ("--beam", beam, 1), ("--shortlist", shortlist, 0)):
        if value < least:
            raise UserError(f"{option} {value}: write {least} or more")
    refuse_existing(out)
    if not as_json:
        print(HEADER)
    made = transplanted(
        model,
        depth=depth,
        how=how,  # type: ignore[arg-type]  # checked above
        params=params,
        data=data,
        amount=amount,
        by_stream=by_stream,
        beam=beam,
        shortlist=shortlist or None,
        uniform=uniform,
        again=None if again is None else read_transplant(again),
        told=(lambda _: None) if as_json else _show,
    )
    made.save(out)
    if as_json:
        print(json.dumps({"folder": str(out), "data": made.data, "rows": [asdict(row) for row in made.rows]}))
        return
    measured = f"; measured on {made.data}" if made.data else ""
    print(f"{out}: written, with the steps in transplant.json{measured}")


HEADER = f"{'step':24} {'layers':>6} {'parameters':>13} {'loss':>8} {'turn':>6} {'forward':>9} {'KV cache':>9}"


def _show(row: Measured) -> None:
    """One model on the way, as soon as it is measured."""
    loss = "" if row.loss is None else f"{row.loss:.4f}"
    turn = "" if row.turn is None else f"{row.turn:.3f}"
    time = "" if row.milliseconds is None else f"{row.milliseconds:.1f} ms"
    cache = "" if row.cache is None else size(row.cache)
    print(f"{row.what[:24]:24} {row.layers:6} {row.params:13,} {loss:>8} {turn:>6} {time:>9} {cache:>9}", flush=True)
