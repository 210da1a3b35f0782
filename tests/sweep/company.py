"""Runs of which time counts beside others of which it does not, and a view that notes which runs go on together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from manyheads.runs import Run
from manyheads.sweep.jobs import Job, QuietView

from .tiny import jobs, tiny


def mixed(root: Path) -> list[Job]:
    """Two runs that are alone, and after them two that are not."""
    four = jobs(root, tiny(60, arms=4, probe_every=0, checkpoint_every=0))
    return [replace(job, alone=number < 2) for number, job in enumerate(four)]


class Company(QuietView):
    """Notes every set of runs that were in progress at the same time."""

    def __init__(self) -> None:
        self.together: set[frozenset[str]] = set()

    def look(self, running: Sequence[Job]) -> None:
        """Note them."""
        if running:
            self.together.add(frozenset(job.path.name for job in running))


def on_device(wanted: Sequence[Job]) -> list[int | None]:
    """How many runs were on the device of each run, as its result says."""
    results = [Run.open(job.path).result for job in wanted]
    return [result["timing"]["on_device"] for result in results if result is not None]


def check_alone(wanted: Sequence[Job], seen: Company) -> None:
    """The runs that are alone were, and the others went first and together, and every result says so."""
    alone = {job.path.name for job in wanted if job.alone}
    assert all(len(names) == 1 for names in seen.together if names & alone)
    spans = {job.path.name: _training(job) for job in wanted}
    together = max(end for name, (_, end) in spans.items() if name not in alone)
    one_by_one = sorted(spans[name] for name in alone)
    ends = [together, *(end for _, end in one_by_one)]
    assert all(start > end for (start, _), end in zip(one_by_one, ends, strict=False))
    assert on_device(wanted) == [1, 1, 2, 2]


def _training(job: Job) -> tuple[float, float]:
    """When a run was certainly in progress: its last seconds of training before it wrote its result. A view looks too
    seldom to see every short run."""
    result = Run.open(job.path).result
    assert result is not None
    end = (job.path / "result.json").stat().st_mtime
    return end - result["timing"]["seconds"], end
