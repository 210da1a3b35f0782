"""`--taps` and `--tap` of `manyheads probe`: where the probe listens, and how to make it listen elsewhere."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from manyheads.spec.errors import UserError

from .numbers import DIGITS

if TYPE_CHECKING:
    from manyheads.conditioning.attention_modules import AttentionModule
    from manyheads.conditioning.tap_table import Tap


def read_taps(texts: Sequence[str]) -> dict[str, Tap]:
    """The taps that `--tap MODULE=PROJECTION:HEADS` names; HEADS is a number, or the attribute that holds it."""
    from manyheads.conditioning.tap_table import Tap

    taps = {}
    for text in texts:
        module, equals, place = text.partition("=")
        projection, colon, heads = place.partition(":")
        if not (module and equals and projection and colon and heads):
            raise UserError(
                f"--tap {text!r} is not MODULE=PROJECTION:HEADS; write for example 'blocks.*.attn=proj:8', and see "
                "manyheads probe MODEL --taps for the modules"
            )
        taps[module] = Tap(projection, int(heads) if DIGITS.fullmatch(heads) else heads)
    return taps


def list_taps(model: str, modules: Sequence[AttentionModule], as_json: bool) -> None:
    """Print every attention-like module, and the tap that listens there or why none does."""
    if as_json:
        print(json.dumps({"model": model, "modules": [asdict(module) for module in modules]}))
        return
    from rich.console import Console
    from rich.table import Table

    console = Console()
    if not modules:
        console.print(
            f"{model} has no attention: no softmax over keys, no fused attention, no module named for it.", markup=False
        )
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("module", "class", "heads", "listens to", "left out, since"):
        table.add_column(title, overflow="fold")
    for module in modules:
        heads = "" if module.heads is None else str(module.heads)
        style = "yellow" if module.left_out and not module.expected else ""
        table.add_row(
            module.name, module.module.rpartition(".")[2], heads, module.listens, module.left_out, style=style
        )
    console.print(table)
    for module in modules:
        if module.candidate:
            tap = f"--tap '{module.name}={module.candidate}:{module.heads or 'HEADS'}'"
            console.print(f"\nThis may listen to {module.name}: {tap}", highlight=False, markup=False)
