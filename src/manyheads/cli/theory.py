"""`manyheads theory`: predicted kappa of independent Gaussian heads, over the number of heads."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated, Any

import typer

from manyheads.spec.errors import UserError
from manyheads.spec.field_checks import between

MOST = 10**6  # tokens, heads, their size, and samples


def theory(
    tokens: Annotated[int, typer.Option(help="Rows of the concatenated heads: the sequence length.")],
    head_dim: Annotated[int, typer.Option(help="Size of one head; inner is heads x head_dim.")],
    heads: Annotated[int | None, typer.Option(help="Predict this one number of heads instead of a table.")] = None,
    samples: Annotated[int, typer.Option(help="Gaussian matrices drawn for each row; 0 for none.")] = 200,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the curve to this file (.svg, .png, .pdf).")] = None,
) -> None:
    """Predict kappa, the condition number, of Gaussian heads. It peaks where heads x head_dim equals tokens."""
    for name, value in (("tokens", tokens), ("head-dim", head_dim), ("heads", 1 if heads is None else heads)):
        if value < 1:
            raise UserError(f"--{name} {value}: write a whole number of at least 1")
        between(f"--{name}", value, 1, MOST, whole=True)
    between("--samples", samples, 0, MOST, whole=True)
    from manyheads.conditioning.theory import gaussian_log_kappa, peak_heads, sample_kappa

    peak = float(peak_heads(tokens, head_dim))
    rows = []
    for count in _track([heads] if heads is not None else choose(peak), quiet=as_json or not samples):
        inner = count * head_dim
        expected = gaussian_log_kappa(tokens, inner)
        row: dict[str, Any] = {
            "heads": count,
            "inner": inner,
            "inner_per_token": inner / tokens,
            "kappa": math.exp(expected.mean),
            "log_kappa": expected.mean,
            "spread": expected.spread,
        }
        if samples:
            logs = [math.log(kappa) for kappa in sample_kappa(tokens, inner, samples)]
            row["sampled_log_kappa"] = math.fsum(logs) / samples
        rows.append(row)
    report = {"tokens": tokens, "head_dim": head_dim, "peak_heads": peak, "samples": samples, "rows": rows}
    if plot is not None:
        _draw(report, plot)
    if as_json:
        print(json.dumps(report))
    else:
        _print(report)


def choose(peak: float) -> list[int]:
    """Numbers of heads from 1 to eight times the peak: each up to 16, then in steps of a quarter of an octave."""
    spread = {round(peak * 2 ** (step / 4)) for step in range(-12, 13)} | {math.floor(peak), math.ceil(peak)}
    return sorted({count for count in spread if count >= 1} | set(range(1, min(16, math.ceil(8 * peak)) + 1)))


def _track(counts: list[int], *, quiet: bool) -> Any:
    from rich.console import Console
    from rich.progress import track

    return track(counts, "sampling", console=Console(stderr=True), transient=True, disable=quiet or len(counts) == 1)


def _print(report: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("heads", "inner", "inner / tokens", "kappa", "log kappa", "spread", "sampled", ""):
        table.add_column(title, justify="right" if title else "left", no_wrap=True)
    worst = max(report["rows"], key=lambda row: row["kappa"])
    for row in report["rows"]:
        sampled = f"{row['sampled_log_kappa']:.3f}" if "sampled_log_kappa" in row else ""
        mark = "peak" if row is worst and len(report["rows"]) > 1 else ""
        table.add_row(
            str(row["heads"]),
            str(row["inner"]),
            f"{row['inner_per_token']:.2f}",
            f"{row['kappa']:.2f}",
            f"{row['log_kappa']:.3f}",
            f"{row['spread']:.3f}",
            sampled,
            mark,
            style="bold" if mark else "",
        )
    console = Console()
    console.print(table)
    console.print(
        f"\n{report['tokens']} tokens, head_dim {report['head_dim']}: kappa of independent normal heads is worst "
        f"at {report['peak_heads']:.1f} heads, where inner (heads x head_dim) equals tokens; fewer and more are better.",
        highlight=False,
    )


def _draw(report: dict[str, Any], file: Path) -> None:
    from .figure import figure

    rows = report["rows"]
    with figure(file) as axes:
        heads, logs = [row["heads"] for row in rows], [row["log_kappa"] for row in rows]
        spreads = [row["spread"] for row in rows]
        axes.plot(heads, [math.exp(log) for log in logs], color="#1f6feb", marker="o", ms=3, label="prediction")
        axes.fill_between(
            heads,
            [math.exp(log - s) for log, s in zip(logs, spreads, strict=True)],
            [math.exp(log + s) for log, s in zip(logs, spreads, strict=True)],
            color="#1f6feb",
            alpha=0.15,
        )
        if report["samples"]:
            axes.plot(
                heads, [math.exp(row["sampled_log_kappa"]) for row in rows], "x", color="#d1642d", label="samples"
            )
        axes.axvline(report["peak_heads"], color="#57606a", lw=0.8, ls=":", label="inner = tokens")
        axes.set(
            xscale="log",
            yscale="log",
            xlabel=f"heads of {report['head_dim']}",
            ylabel=f"kappa, {report['tokens']} tokens",
        )
        axes.legend(frameon=False)
