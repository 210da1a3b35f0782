"""`manyheads.train(...)` and `manyheads.report(...)`: what the commands of these names do, in Python."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from .compare import stated_test
from .stated_run import Stated, planned

if TYPE_CHECKING:
    from manyheads.report.read_runs import ReportedRuns
    from manyheads.runs import Run
    from manyheads.spec.arch import Arch


def train(
    model: str | Arch,
    *,
    out: Path | str,
    data: str | None = None,
    seed: int = 0,
    device: str | None = None,
    quiet: bool = True,
    **options: Any,
) -> Run:
    """Train a model in the run folder `out` and return the run, which has its `result`. Called again, it resumes, and a
    finished run is returned at once.

    `model` is a name or a record. `options` are further fields of `interop.stated_run.Stated`: steps, basis, epochs,
    batch, lr, recipe, task, settings, tokenizer, root."""
    from manyheads import tasks
    from manyheads.runs import Run, RunSpec
    from manyheads.train.loop import train as trained

    stated = Stated(data=data, **options)
    arch, task, recipe = planned(model, stated)
    tasks.check_data(task, root=stated.root)
    run = Run.create(out, RunSpec(arch, task, recipe, seed))
    trained(run, device=device, root=stated.root, quiet=quiet)
    return run


def report(
    runs: Path | str,
    out: Path | str = "report.html",
    *,
    against: str = "",
    no_loss: float | None = None,
    better: float | None = None,
    equal: float | None = None,
    metric: str = "",
) -> ReportedRuns:
    """Write the page about all runs below a folder, and return what is on it: sections, arms, runs. The tests are those
    of `manyheads report`."""
    from manyheads.report.page import write
    from manyheads.report.read_runs import Asked

    tests = {"no_loss": no_loss, "better": better, "equal": equal}
    expect, margin = stated_test(tests)
    stated = against or metric or any(value is not None for value in tests.values())
    return write(Path(runs), Path(out), asked=Asked(against, expect, margin, metric) if stated else None)
