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
    assert alone <= frozenset().union(*seen.together)
    assert on_device(wanted) == [1, 1, 2, 2]
