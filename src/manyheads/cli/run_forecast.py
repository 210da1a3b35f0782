"""The table of a dry run: the steps, operations, time and memory that the runs of an experiment would take."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .numbers import millions, size

if TYPE_CHECKING:
    from manyheads.runs import RunFolder
    from manyheads.sweep.forecast import Forecast
    from manyheads.sweep.plan import Selection

PLACES = 4  # folders, packs and arms that are named


def show(
    selection: Selection,
    whole: bool,
    workers: int | None,
    device: str | None,
    threads: int,
    tflops: float | None,
    root: Path | None,
    executor: str,
    known: Sequence[RunFolder] = (),
) -> None:
    """Print a row for each arm, or for each experiment if the `whole` catalogue is run, the total, how the runs were
    assumed to share what they run on, and which finished runs their times are learnt from. Where no number of `workers`
    is stated, it is chosen as for the runs themselves."""
    from rich.console import Console
    from rich.table import Table

    from manyheads.report.number_text import count, duration
    from manyheads.sweep.capacity import choose, here
    from manyheads.sweep.forecast import forecast, learn, sharing, wall

    jobs = [*selection.jobs(), *map(selection.job, selection.later)]
    machine = here(device)
    learnt, _ = learn(jobs, device=device, threads=threads, known=known, gpu=machine.name)
    forecasts = forecast(jobs, device=device, threads=threads, tflops=tflops, root=root, known=known, gpu=machine.name)
    chosen = choose(forecasts, machine, threads) if workers is None and executor == "processes" else None
    workers = chosen.workers if chosen is not None else 2 if workers is None else workers
    shared = sharing(workers, device, threads, own=_own_devices(executor), gpus=_gpus(executor))
    if executor == "slurm":  # a run that is alone has a node of its own
        forecasts = [replace(each, job=replace(each.job, alone=False)) for each in forecasts]
    groups: dict[str, list[Forecast]] = {}
    for each in forecasts:
        groups.setdefault(_group(each, whole), []).append(each)
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("experiment" if whole else "arm", no_wrap=True)
    for title in ("runs", "done", "params", "steps", "FLOPs", "time", "memory"):
        table.add_column(title, justify="right", no_wrap=True)
    for name, group in groups.items():
        steps = _most([each.steps for each in group], "{:,}".format)
        cells = [
            _most([each.params for each in group], millions),
            steps,
            _most([each.flops for each in group], count),
            _most([each.seconds for each in group], duration),
            _most([each.memory for each in group], size),
        ]
        table.add_row(name, str(len(group)), str(sum(each.done for each in group)), *cells)
    console = Console(highlight=False)
    console.print(table)
    left = [each for each in forecasts if not each.done]
    unknown = sum(each.seconds is None for each in left)
    summary = f"{len(forecasts)} runs, {len(forecasts) - len(left)} done"
    if len(left) > unknown:
        beside = sum(sorted((each.memory or 0.0 for each in left), reverse=True)[:workers])
        took = duration(wall(left, workers, shared))
        alone = sum(each.job.alone for each in left)
        summary += f"; the rest: about {took} with {workers} side by side, at most {size(beside)} in tensors"
        summary += f"; {alone} of them run alone, one at a time" if alone else ""
    console.print(f"\nNumbers are of one run, the largest in its row. {summary}.", soft_wrap=True)
    if sources := _sources(groups):
        console.print(f"Times: {sources}.", soft_wrap=True)
    if learnt.places:
        names = [f"{os.path.relpath(place)} ({count})" for place, count in sorted(learnt.places.items())]
        more = f" and {len(names) - PLACES} more folders" if len(names) > PLACES else ""
        console.print(f"Finished runs to learn from: {', '.join(names[:PLACES])}{more}.", soft_wrap=True)
    if chosen is not None and len(left) > unknown:
        console.print(f"Chosen: {workers} side by side; {chosen.words}.", soft_wrap=True)
    if workers > 1 and len(left) > unknown:
        console.print(f"Assumed: {shared.words}.", soft_wrap=True)
    if unknown:
        console.print(
            f"Of unknown length: {unknown} runs, measurements or epochs of data that is not here.", soft_wrap=True
        )


def _sources(groups: Mapping[str, Sequence[Forecast]]) -> str:
    """Where the times of the runs that are left are known from, with the rows of the table."""
    rows: dict[str, dict[str, None]] = {}
    for name, group in groups.items():
        for each in group:
            if each.source and not each.done:
                rows.setdefault(each.source, {})[name] = None
    parts = []
    for source, names in rows.items():
        shown = ", ".join(list(names)[:PLACES]) + (f" and {len(names) - PLACES} more" if len(names) > PLACES else "")
        parts.append(f"{shown} by {source}")
    return "; ".join(parts)


def _own_devices(executor: str) -> bool:
    """Whether a scheduler gives each run a device: Slurm, or the cluster at RAY_ADDRESS."""
    return executor == "slurm" or (executor == "ray" and os.environ.get("RAY_ADDRESS", "local") != "local")


def _gpus(executor: str) -> int:
    """How many GPUs of this machine runs are spread over: Ray takes all, worker processes the first."""
    import torch

    return max(1, torch.cuda.device_count()) if executor == "ray" else 1


def _group(each: Forecast, whole: bool) -> str:
    label = each.job.spec.label
    if whole:
        return str(label["experiment"])
    return " ".join(filter(None, [label["arm"], label.get("basis")]))


def _most(values: Sequence[float | None], write: Callable[[Any], str]) -> str:
    """The largest of the known values, if there is one."""
    numbers = [value for value in values if value is not None]
    return write(max(numbers)) if numbers else ""
