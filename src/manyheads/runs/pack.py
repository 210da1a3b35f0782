"""`pack`: write the finished runs below a folder into one file, a line a run.

A line has the run's name below that folder, its specification and id, its result (with machine, versions, commit, time,
and the number of processes on the device, as far as the run recorded them), its last status with the date, and its
measurements, thinned; and the `experiment.json` beside its folder, where there is one, which says what was expected.
Models and checkpoints are not in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from manyheads.spec.errors import UserError
from manyheads.spec.experiment_file import EXPERIMENT
from manyheads.spec.files import read_object, unwritten

from .folder import SPEC, RunFolder, identity
from .listing import find, same_findings
from .pack_lines import MOST_LINE, check_new, seal, write_lines
from .thinned import thin_metrics, thin_spectra, thin_timings


@dataclass
class PackReport:
    """What was packed: the number of runs and the bytes of their lines before compression; what was left out, a sentence
    each; and what else is to be said."""

    runs: int = 0
    size: int = 0
    left_out: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def pack(root: Path, out: Path) -> PackReport:
    """Write the finished runs below `root`, in folders and in packs, to the pack `out`. Runs that are not finished or
    cannot be read are left out, and named in the report. The file appears when all of it is written."""
    report = PackReport()
    runs = _finished(find(root), report)
    if not runs:
        why = f" ({report.left_out[0]})" if report.left_out else ""
        raise UserError(f"{root} holds no finished run{why}; nothing is written")
    check_new(out)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritten(out, error) from error
    report.runs, report.size = write_lines(out, _contents(root, runs, report))
    if not report.runs:
        out.unlink()
        raise UserError(f"no run of {root} could be packed: {report.left_out[0]}")
    return report


def content(run: RunFolder, name: str) -> dict[str, Any]:
    """What a pack holds of a finished run that is called `name` there."""
    if run.packed is not None:
        return run.packed.content | {"name": name}
    stated = read_object(run.path.parent / EXPERIMENT)  # what was expected, where it is written beside the runs
    return ({} if stated is None else {"experiment": stated}) | {
        "name": name,
        "spec": read_object(run.path / SPEC),
        "status": run.status,
        "result": run.result,
        "metrics": thin_metrics(run.records("metrics")),
        "spectra": thin_spectra(run.records("spectra")),
        "timings": thin_timings(run.records("timings")),
    }


def _finished(runs: list[RunFolder], report: PackReport) -> list[RunFolder]:
    """The finished ones, each once; the report says what became of the others."""
    chosen: dict[tuple[str, ...], RunFolder] = {}
    conflicts = set()
    for run in runs:
        if run.problem is not None or run.spec is None:
            report.left_out.append(run.problem or f"{run.path} has no specification")
            continue
        if run.state != "done":
            report.left_out.append(f"{run.path} is {run.state} and not finished")
            continue
        report.remarks += [f"{run.path} is in {other} too; it is packed once" for other in run.also]
        key = identity(run.spec)
        first = chosen.setdefault(key, run)
        if first is not run and same_findings(first, run):
            report.remarks.append(f"{run.path} is the same run as {first.path}; it is packed once")
        elif first is not run:
            conflicts.add(key)
            report.left_out.append(f"{run.path} is the same run as {first.path}, with another result")
    for key in conflicts:
        report.left_out.append(f"{chosen.pop(key).path} has another result than the same run elsewhere")
    return list(chosen.values())


def _contents(root: Path, runs: list[RunFolder], report: PackReport) -> Iterator[dict[str, Any]]:
    """What is packed of each run, the names made different where two packs had the same."""
    names: set[str] = set()
    for run in runs:
        base = root.parent if run.path == root else root
        inside = run.packed.file.parent if run.packed is not None and run.packed.file != root else None
        name = run.path.relative_to(base).as_posix()
        if inside is not None and run.packed is not None:  # the name of the pack it comes from is not part of its own
            name = (inside.relative_to(base) / str(run.packed.content["name"])).as_posix()
        name = next(one for i in range(len(runs) + 1) if (one := name + f"-{i}" * bool(i)) not in names)
        try:
            if any(not part.isprintable() for part in name):
                raise UserError(f"{name!r} has characters that cannot be shown; rename the folder")
            record = content(run, name)
            if len(seal({"run": record}, "")[0]) > MOST_LINE:
                raise UserError(f"its evaluations and last probe alone are more than {MOST_LINE >> 20} MiB")
        except UserError as error:
            report.left_out.append(f"{run.path}: {error}")
            continue
        names.add(name)
        yield record
