"""The same run under two names: a specification's id leaves the label out, so what is finished for one experiment is
finished for every other that has the same run, and is not trained again.

Figure 1 has the runs of Tables 4 and 5; Figure 2 shares arms with Figures 3 and 5, the controls share theirs with Table
4."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from manyheads.runs import Run, RunSpec, find
from manyheads.spec.errors import UserError
from manyheads.spec.experiment import folder

KEPT = ("metrics.jsonl", "spectra.jsonl", "timings.jsonl")


def adopt(root: Path, planned: Sequence[RunSpec]) -> list[Path]:
    """Give each of the `planned` runs that is finished elsewhere below `root` its own folder with the same records and
    result, and say which these are. The model stays where it was trained; the label says where (`trained_in`)."""
    done = {found.spec.id: found.path for found in find(root) if found.state == "done" and found.spec is not None}
    made = []
    for spec in planned:
        source, target = done.get(spec.id), folder(root, spec)
        if source is None or source == target or _begun(target):
            continue
        label = {**spec.label, "trained_in": source.relative_to(root).as_posix()}
        run, result = Run.create(target, replace(spec, label=label)), Run.open(source).result
        assert result is not None
        with run.locked():
            for name in KEPT:
                if (source / name).is_file():
                    shutil.copyfile(source / name, target / name)
            run.finish(result)
        made.append(target)
    return made


def _begun(target: Path) -> bool:
    """Whether somebody trains there, or has: what a killed `adopt` left does not count. A damaged folder is left
    alone."""
    if not (target / "spec.json").is_file():
        return False
    try:
        run = Run.open(target)
    except UserError:
        return True
    return run.state in ("done", "running") or run.checkpoints.exists()
