"""What a run takes from another run: everything, where both are the same run under two names; its first weights, where
one experiment comes after another.

A run's id leaves the label out. So Figure 1 has the runs of Tables 4 and 5, Figure 2 shares arms with Figures 3 and 5,
and what is finished for one experiment is not trained again for the others."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from manyheads.runs import Run, RunSpec, find
from manyheads.spec.errors import UserError
from manyheads.spec.experiment import Experiment, folder, specs

COPIED = ("metrics.jsonl", "spectra.jsonl", "timings.jsonl")


def adopt(root: Path, planned: Sequence[RunSpec]) -> list[Path]:
    """Copy finished runs below `root` to those of the `planned` runs that are the same under another name; the folders
    that were made. Each gets the records and the result, not the model, and its label says where the run was trained
    (`trained_in`)."""
    finished = {run.spec.id: run.path for run in find(root) if run.state == "done" and run.spec is not None}
    copies = []
    for spec in planned:
        source, target = finished.get(spec.id), folder(root, spec)
        if source is None or source == target or _begun(target):
            continue
        label = {**spec.label, "trained_in": source.relative_to(root).as_posix()}
        run, result = Run.create(target, replace(spec, label=label)), Run.open(source).result
        assert result is not None
        with run.locked():
            for name in COPIED:
                if (source / name).is_file():
                    shutil.copyfile(source / name, target / name)
            run.finish(result)
        copies.append(target)
    return copies


def _begun(target: Path) -> bool:
    """Whether a run is or was trained there. What a killed `adopt` left does not count; a damaged folder does, since
    it must not be overwritten."""
    if not (target / "spec.json").is_file():
        return False
    try:
        run = Run.open(target)
    except UserError:
        return True
    return run.state in ("done", "running") or run.checkpoints.exists()


def with_weights(root: Path, runs: Sequence[RunSpec], tuning: Experiment, pretraining: Experiment) -> list[RunSpec]:
    """The `runs` of `tuning`, all of one scale, with the weights of their `pretraining` runs below `root`; their folders
    hold these weights and can be trained. Where a pretraining run is not finished, the first is named and refused.

    A fine-tuning run's identity depends on its first weights, and nobody knows these before they are trained: the
    experiment states none, and here the digest of the pretrained model takes their place."""
    from manyheads.train.finetune import begin, weights_digest

    assert tuning.after is not None
    basis = tuning.after.basis
    ready = []
    for spec in runs:
        scale, arm = spec.label["scale"], spec.label["arm"]
        starts = {arm.name: arm.start for arm in tuning.setting(scale).arms}
        source = folder(root, _run_of(pretraining, scale, starts[arm], basis, spec.seed))
        if not (source / "spec.json").is_file() or Run.open(source).result is None:
            raise UserError(
                f"{source} is not finished, and {arm} starts from its weights; write `{pretraining.command(scale)}` "
                "first"
            )
        tuned = replace(spec, task={**spec.task, "weights": weights_digest(source / "model")})
        begin(Run.create(folder(root, tuned), tuned), source / "model")
        ready.append(tuned)
    return ready


def _run_of(experiment: Experiment, scale: str, arm: str, basis: str, seed: int) -> RunSpec:
    """The run of an arm on a basis with a seed, which may be another than the experiment's own."""
    setting = replace(experiment.setting(scale), seeds=(seed,))
    one = replace(experiment, settings={scale: setting})
    return next(
        spec for spec in specs(one, scale) if (spec.label["arm"], spec.label.get("basis", basis)) == (arm, basis)
    )
