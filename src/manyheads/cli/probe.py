"""`manyheads probe`: how well the attention of a model is conditioned, layer by layer."""

from __future__ import annotations

import json
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from manyheads.spec.errors import UserError
from manyheads.spec.shell import word

from .model_and_inputs import load_with_inputs
from .taps import list_taps, read_taps

COLOURS = ("#1f6feb", "#d1642d", "#1a7f37", "#8250df")


def probe(
    model: Annotated[
        str, typer.Argument(help="A zoo name, a record or saved model, timm:NAME, hf:FOLDER, run:FOLDER.")
    ],
    random: Annotated[bool, typer.Option("--random", help="Initial weights instead of trained ones.")] = False,
    images: Annotated[Path | None, typer.Option(help="Folder of images to measure on. Default: noise.")] = None,
    text: Annotated[Path | None, typer.Option(help="Text file to measure on, with the tokenizer in hf:FOLDER.")] = None,
    batch: Annotated[int, typer.Option("--batch", "--batch-size", help="Number of samples.")] = 4,
    tokens: Annotated[int | None, typer.Option(help="Length of a language model's sequences.")] = None,
    detail: Annotated[
        bool, typer.Option(help="Also measure attention entropy, and kappa of tokens, values and MLP.")
    ] = False,
    jacobian: Annotated[
        bool, typer.Option(help="Also measure the extreme singular values of each attention's Jacobian.")
    ] = False,
    taps: Annotated[
        bool, typer.Option("--taps", help="List every attention-like module, and the tap there or why none listens.")
    ] = False,
    tap: Annotated[
        list[str] | None,
        typer.Option(help="Listen there too: 'blocks.*.attn=proj:8', a module, its output projection, its heads."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of initial weights and of noise.")] = 0,
    device: Annotated[str, typer.Option(help="Where the model runs: cpu, cuda, cuda:1.")] = "cpu",
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Execute the Python files that an hf: model brings.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw kappa over layers to this file (.svg, .png, .pdf).")] = None,
) -> None:
    """Measure kappa, the condition number of the concatenated heads, at every attention, beside its prediction."""
    if batch < 1:
        raise UserError(f"--batch {batch}: write a whole number of at least 1")
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status("") as status:
        status.update(f"loading {escape(model)}")
        from manyheads.conditioning.probe import LeftOut, as_record, listeners, summary
        from manyheads.conditioning.probe import probe as run_probe

        own = read_taps(tap or [])
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
        status.update(f"probing {escape(model)}")
        if taps:
            modules = listeners(loaded.module, loaded.inputs, taps=own)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", LeftOut)  # what was left out is printed below
                sites = run_probe(loaded.module, loaded.inputs, detail=detail, jacobian=jacobian, taps=own)
    if taps:
        list_taps(model, modules, as_json)
        return
    report = {
        "model": model,
        "weights": loaded.weights,
        "input": loaded.source,
        "batch": batch,
        "sites": [as_record(site) for site in sites],
        "left_out": [asdict(module) for module in sites.left_out],
        "summary": {kind: as_record(layers) for kind, layers in summary(sites).items()},
    }
    if plot is not None:
        _draw(report, plot)
    if as_json:
        print(json.dumps(report, allow_nan=False))
    else:
        _print(report)


def _number(value: float | None, without: str = "inf") -> str:
    if value is None:
        return without
    return f"{value:.2e}" if value >= 1e5 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _print(report: dict[str, Any]) -> None:
    import math

    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    table = Table(box=None, header_style="bold", pad_edge=False)
    titles = ("site", "kind", "tokens x inner", "heads", "kappa", "centred", "Gaussian", "stable rank", "correlation")
    shown = len(titles) if console.width >= 110 else 7  # a narrow terminal shows fewer columns, none of them cut off
    for title in titles[:shown]:
        table.add_column(
            title, justify="left" if title in ("site", "kind") else "right", no_wrap=title != "tokens x inner"
        )
    for site in report["sites"]:
        alike = "" if site["head_correlation"] is None else f"{site['head_correlation']:.2f}"
        without = "nan" if site["not_finite"] else "inf"
        cells = (
            site["name"].removesuffix(".op").removesuffix(".attention"),
            site["kind"],
            f"{site['tokens']} x {site['inner']}",
            f"{site['heads']} x {site['head_dim']}",
            _number(site["kappa"], without),
            _number(site["centred_kappa"], without),
            _number(math.exp(site["gaussian_log_kappa"])),
            "nan" if site["stable_rank"] is None else f"{site['stable_rank']:.1f}",
            alike,
        )
        table.add_row(*cells[:shown], style="" if site["reliable"] == 1 else "yellow")
    console.print(table)
    for title, key in (("detail", "detail"), ("Jacobian", "jacobian")):
        if report["sites"][0][key] is not None:
            console.print(f"\n[bold]{title}[/]")
            console.print(_further(Table, report["sites"], key))
    console.print(
        f"\nMeasured with {report['weights']} on {report['batch']} samples of {escape(report['input'])}.",
        highlight=False,
    )
    for kind, layers in report["summary"].items():
        log = layers["mean_log_kappa"]
        broken = any(site["not_finite"] for site in report["sites"] if site["kind"] == kind)
        without = "nan" if broken else "inf"
        typical = without if log is None else _number(math.exp(log))
        console.print(
            f"[bold]{kind}[/]: {layers['layers']} layers, kappa {typical} by the mean of log kappa over layers, "
            f"{_number(layers['mean_kappa'], without)} by the arithmetic mean (the paper's)",
            highlight=False,
        )
    if any(site["not_finite"] for site in report["sites"]):
        console.print("[yellow]nan[/]: some of the activations are NaN or infinite, so there is no kappa")
    if any(site["reliable"] + site["not_finite"] < 1 for site in report["sites"]):
        console.print(
            "[yellow]yellow[/]: some of the matrices are singular, or their kappa is beyond what the method can measure"
        )
    if report["left_out"]:
        command = escape(f"manyheads probe {word(report['model'])} --taps")
        console.print(f"[yellow]left out[/]: {len(report['left_out'])} modules; {command} says more", soft_wrap=True)
    for module in report["left_out"]:
        console.print(f"  {module['name']} ({module['module']}): {module['left_out']}", highlight=False, markup=False)


def _further(table: Any, sites: list[dict[str, Any]], key: str) -> Any:
    further = table(box=None, header_style="bold", pad_edge=False)
    further.add_column("site", no_wrap=True)
    for title in sites[0][key]:
        further.add_column(title.replace("_", " "), justify="right")
    for site in sites:
        cells = [
            str(value) if isinstance(value, bool | int) else "" if value is None else _number(value)
            for value in site[key].values()
        ]
        further.add_row(site["name"], *cells)
    return further


def _draw(report: dict[str, Any], file: Path) -> None:
    import math

    from .figure import figure

    def line(axes: Any, sites: list[dict[str, Any]], key: str, **style: Any) -> None:
        points = [(site["layer"], site[key]) for site in sites if site[key] is not None]
        axes.plot([x for x, _ in points], [math.exp(y) for _, y in points], **style)

    with figure(file) as axes:
        for colour, kind in zip(COLOURS * 2, report["summary"], strict=False):
            sites = [site for site in report["sites"] if site["kind"] == kind]
            line(axes, sites, "log_kappa", color=colour, marker="o", ms=3, label=kind)
            line(axes, sites, "centred_log_kappa", color=colour, marker="o", ms=2, lw=0.8, label=f"{kind}, centred")
            line(axes, sites, "gaussian_log_kappa", color=colour, ls=":", label=f"{kind}, Gaussian")
        axes.set(yscale="log", xlabel="layer", ylabel="kappa", title=f"{report['model']}, {report['input']}")
        axes.legend(frameon=False)
