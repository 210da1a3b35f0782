"""`manyheads rank`: how much rank per head the tokens of a model need, layer by layer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from manyheads.spec.errors import UserError

from .model_and_inputs import load_with_inputs
from .numbers import whole_numbers
from .tables import Column, show


def rank(
    model: Annotated[
        str, typer.Argument(help="A zoo name, a record or saved model, timm:NAME, hf:FOLDER, run:FOLDER.")
    ],
    head_dim: Annotated[str | None, typer.Option(help="Other head_dims to judge, e.g. 32 or 16,32.")] = None,
    random: Annotated[bool, typer.Option("--random", help="Initial weights instead of trained ones.")] = False,
    images: Annotated[Path | None, typer.Option(help="Folder of images to measure on. Default: noise.")] = None,
    text: Annotated[Path | None, typer.Option(help="Text file to measure on, with the tokenizer in hf:FOLDER.")] = None,
    batch: Annotated[int, typer.Option("--batch", "--batch-size", help="Number of samples.")] = 8,
    tokens: Annotated[int | None, typer.Option(help="Length of a language model's sequences.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of initial weights and of noise.")] = 0,
    device: Annotated[str, typer.Option(help="Where the model runs: cpu, cuda, cuda:1.")] = "cpu",
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Execute the Python files that an hf: model brings.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw coverage over rank to this file (.svg, .png, .pdf).")] = None,
) -> None:
    """Measure the spectrum of the tokens at every attention, and the share of it that head_dim covers."""
    asked = whole_numbers(head_dim, "head-dim")
    dims = [] if asked is None else [asked] if isinstance(asked, int) else asked
    if batch < 4:
        raise UserError(f"--batch {batch}: write 4 samples or more")
    if any(dim < 1 for dim in dims):
        raise UserError(f"--head-dim {head_dim}: write whole numbers from 1 up")
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status("") as status:
        status.update(f"loading {escape(model)}")
        from manyheads.conditioning.coverage import ENOUGH, as_record, coverage

        loaded = load_with_inputs(
            model,
            images=images,
            text=text,
            batch=batch,
            tokens=tokens,
            random=random,
            seed=seed,
            device=device,
            trust_remote_code=trust_remote_code,
        )
        status.update(f"measuring {escape(model)}")
        records = coverage(loaded.module, loaded.inputs, dims)
    report = {
        "model": model,
        "weights": loaded.weights,
        "input": loaded.source,
        "batch": batch,
        "enough": ENOUGH,
        "layers": [as_record(layer) for layer in records],
    }
    if plot is not None:
        _draw(report, plot)
    if as_json:
        print(json.dumps(report, allow_nan=False))
    else:
        _print(report)


def _print(report: dict[str, Any]) -> None:
    from rich.console import Console

    console = Console()
    layers = report["layers"]
    asked = [share["head_dim"] for share in layers[0]["shares"][1:]]
    columns = [
        Column("site"),
        Column("tokens x width", right=True, leave=6),
        Column("heads", right=True, leave=5),
        Column("effective rank", right=True, leave=4),
        Column("0.9 needs", right=True, leave=2),
        Column("covers", right=True),
        Column("floor", right=True, leave=3),
    ]
    for dim in asked:
        columns += [Column(f"{dim} covers", right=True, leave=1), Column(f"{dim} floor", right=True, leave=3)]
    rows = []
    for layer in layers:
        own, *others = layer["shares"]
        shares = [own, *({share["head_dim"]: share for share in [own, *others]}[dim] for dim in asked)]
        numbers = [f"{number:.2f}" for share in shares for number in (share["coverage"], share["floor"])]
        rows.append(
            [
                layer["name"].removesuffix(".op").removesuffix(".attention"),
                f"{layer['tokens']} x {layer['width']}",
                f"{layer['heads']} x {layer['head_dim']}",
                f"{layer['effective_rank']:.1f}",
                str(layer["needed"]),
                *numbers,
            ]
        )
    low = [layer["shares"][0]["coverage"] < report["enough"] for layer in layers]
    show(console, columns, rows, ["yellow" if one else "" for one in low])
    console.print(
        f"\nMeasured with {report['weights']} on {report['batch']} samples of {report['input']}. covers: share "
        "of the variance of the score of two tokens in the largest head_dim directions. floor: least error of "
        "one such head at finding the nearer of two tokens; 0.5 is chance.",
        highlight=False,
        markup=False,
    )
    _cautions(console, report)


def _cautions(console: Any, report: dict[str, Any]) -> None:
    layers = report["layers"]
    low = [layer for layer in layers if layer["shares"][0]["coverage"] < report["enough"]]
    if low:
        console.print(
            f"[yellow]yellow[/]: in {len(low)} of {len(layers)} layers head_dim covers less than {report['enough']:g}",
            highlight=False,
        )
    gap = max(share["most"] - share["coverage"] for layer in layers for share in layer["shares"])
    if gap > 0.05:
        console.print(
            f"With {report['batch']} samples coverage may be up to {gap:.2f} higher than shown; a larger "
            "--batch narrows this.",
            highlight=False,
        )
    if report["input"] == "noise":
        console.print("Noise is not what the model is used on; give --images or --text.", highlight=False)


def _draw(report: dict[str, Any], file: Path) -> None:
    from .figure import figure

    layers = report["layers"]
    with figure(file) as axes:
        for layer in layers:
            shade = layer["layer"] / max(1, len(layers) - 1)
            label = f"layer {layer['layer']}" if layer["layer"] in (0, len(layers) - 1) else None
            colour = (0.12 + 0.7 * shade, 0.43, 0.92 - 0.75 * shade)
            axes.plot(range(1, layer["width"] + 1), layer["curve"], color=colour, lw=1, label=label)
        for dim in dict.fromkeys(share["head_dim"] for layer in layers for share in layer["shares"]):
            axes.axvline(dim, color="#57606a", lw=0.8, ls=":")
            axes.annotate(str(dim), (dim, 0.02), color="#57606a", xytext=(2, 0), textcoords="offset points")
        axes.axhline(report["enough"], color="#d0d7de", lw=0.8)
        axes.set(
            xscale="log",
            ylim=(0, 1.02),
            xlabel="rank per head",
            ylabel="share of the score's variance",
            title=f"{report['model']}, {report['input']}",
        )
        axes.legend(frameon=False, loc="lower right")
