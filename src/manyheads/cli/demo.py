"""`manyheads demo`: the main job. A small ViT, its lean redesign and the controls, trained, probed and compared."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from manyheads.spec.errors import UserError


def demo(
    root: Annotated[Path, typer.Option(help="Where run folders and the page go.")] = Path("runs"),
    workers: Annotated[int, typer.Option(help="Processes side by side, one thread each; 0 works in this process.")] = 2,
    steps: Annotated[
        int | None, typer.Option(help="Fewer training steps, for a first look (give another --root).")
    ] = None,
    device: Annotated[str, typer.Option(help="Where models are trained: cpu, cuda.")] = "cpu",
    quiet: Annotated[bool, typer.Option("--quiet", help="Only the table, the verdict and the page's address.")] = False,
) -> None:
    """Train a small ViT, its lean redesign and two controls on the embedded images, and write a page. About 4
    minutes."""
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
    command = f"manyheads demo --root {root}" + (f" --steps {steps}" if steps else "")
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
