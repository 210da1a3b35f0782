"""`manyheads demo`: train, probe and compare a small ViT, its lean redesign and two controls."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from manyheads.spec.errors import UserError
from manyheads.spec.shell import word


def demo(
    root: Annotated[Path, typer.Option(help="Folder for the run folders and the page.")] = Path("runs"),
    workers: Annotated[
        int, typer.Option(help="Processes side by side, one thread each; 0 trains in this process.")
    ] = 2,
    steps: Annotated[
        int | None, typer.Option(help="Training steps, fewer for a first look (with another --root).")
    ] = None,
    device: Annotated[str, typer.Option(help="Device that trains: cpu, cuda.")] = "cpu",
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Show only the table, the verdict and the page's address.")
    ] = False,
) -> None:
    """Train a small ViT, its lean redesign (more heads, fewer layers) and two controls on embedded images, and write a
    page. About 4 minutes."""
    from manyheads.experiments.demo import DEMO, shortened
    from manyheads.report.page import write
    from manyheads.spec.experiment import folder, specs
    from manyheads.sweep.jobs import Job, QuietView
    from manyheads.sweep.local import Interrupted, run

    from .verdict import show

    began = time.monotonic()
    experiment = DEMO if steps is None else shortened(DEMO, steps)
    jobs = [Job(folder(root, spec), spec) for spec in specs(experiment, "smoke")]
    try:
        outcomes = run(jobs, workers=workers, device=device, look=QuietView() if quiet else None)
    except Interrupted as stop:
        print(f"manyheads: {stop}", file=sys.stderr)
        raise typer.Exit(stop.code) from None
    command = f"manyheads demo --root {word(root)}" + (f" --steps {steps}" if steps else "")
    trained = time.monotonic()
    page = root / "demo.html"
    report = write(root / "demo-smoke", page, experiments={DEMO.name: experiment}, command=command)
    for section in report.sections:
        show(section)
    print(f"\npage: {page}")
    if not quiet:
        print(
            f"trained and probed in {trained - began:.0f} s, page in {time.monotonic() - trained:.1f} s",
            file=sys.stderr,
        )
    failed = [outcome for outcome in outcomes if outcome.fate in ("failed", "stopped")]
    if failed:
        raise UserError(
            f"{len(failed)} of {len(outcomes)} runs did not finish: "
            + "; ".join(f"{outcome.job.path.name}: {outcome.message}" for outcome in failed)
        )
