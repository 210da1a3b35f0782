"""How many runs shared a device, told where time is compared: a run that has company takes longer than one without."""

from __future__ import annotations

from collections.abc import Iterable

from manyheads.spec.timed import timed

from .read_runs import ArmRuns, ReportedRun, Section


def sharing(section: Section) -> str:
    """How many runs were on a device at a time, as a term of the comparison; "" where nobody compares time and no
    company is known."""
    done = [run for run in section.runs if run.state == "done"]
    known = sorted({run.measured.on_device for run in done if run.measured.on_device is not None})
    if not done or not (any(_timed(run, section) for run in done) or max(known, default=1) > 1):
        return ""
    words = [str(count) for count in known]
    if any(run.measured.on_device is None for run in done):
        words.append("a number that was not recorded")
    return f"runs on a device at a time: {' or '.join(words)}"


def company(section: Section) -> list[str]:
    """A sentence about the runs whose time is compared and that were not alone; none where all of them were."""
    timed_runs = [run for run in section.runs if run.state == "done" and _timed(run, section)]
    counts = [run.measured.on_device for run in timed_runs]
    shared = [count for count in counts if count is not None and count > 1]
    sentences = []
    if shared:
        sentences.append(
            f"{len(shared)} of {len(counts)} runs whose time counts shared their device with others, up to "
            f"{max(shared)} at a time: their seconds and rates say little about the models."
        )
    if unknown := counts.count(None):
        sentences.append(
            f"Of {unknown} of {len(counts)} runs whose time counts nobody knows how many others were on their device."
        )
    return sentences


def shared(arms: Iterable[ArmRuns]) -> list[str]:
    """A sentence about arms whose times are compared, where some of their runs were not alone: why that decides
    nothing."""
    counts = [run.measured.on_device for arm in arms for run in arm.done]
    beside = [count for count in counts if count is not None and count > 1]
    if not beside:
        return []
    return [
        f"Time is compared, and {len(beside)} of {len(counts)} runs shared their device, up to {max(beside)} at a time."
    ]


def _timed(run: ReportedRun, section: Section) -> bool:
    return run.folder.spec is not None and timed(run.folder.spec, section.experiment)
