"""`manyheads convert` and `manyheads export`: a trained model from another library, and back."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer


def convert(
    model: Annotated[
        str,
        typer.Argument(
            help="hf:FOLDER (safetensors, or one GGUF file), timm:NAME, timm:FOLDER, run:FOLDER, or a saved model."
        ),
    ],
    out: Annotated[Path, typer.Option(help="New folder for the record, the weights and the tokenizer.")],
    dtype: Annotated[
        str | None, typer.Option(help="float32, bfloat16 or float16. Default: the type in the files.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Convert a trained model of transformers or timm, and say what was mapped and what was not."""
    from manyheads.interop.door import convert as converted

    report = converted(model, out, dtype=dtype)
    if as_json:
        print(json.dumps(asdict(report) | {"folder": str(out)}))
        return
    for name, value in [*report.lines(), ("written", str(out))]:
        print(f"{name:14} {value}")


def export(
    model: Annotated[str, typer.Argument(help="A folder of `manyheads convert`, run:FOLDER, or any name it takes.")],
    to: Annotated[str, typer.Option(help="hf (transformers) or timm.")],
    out: Annotated[Path, typer.Option(help="New folder.")],
    stock: Annotated[
        bool, typer.Option("--stock", help="The library's own class, which loads where manyheads is not installed.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Write a trained model as a folder that transformers or timm loads."""
    from manyheads.interop.export_model import export as exported

    done = exported(model, out, to=to, stock=stock)
    if as_json:
        print(json.dumps(asdict(done)))
        return
    print(f"{done.folder}: {done.kind}, {done.parameters:,} parameters in {done.dtype}")
    print(f"in Python:  {done.line}", file=sys.stderr)
