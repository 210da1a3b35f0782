"""Run folders with made-up numbers: finished, stopped, damaged; a few or thousands."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path

from manyheads.runs import Run, RunSpec
from manyheads.spec.experiment import Experiment, folder, specs
from tests.specs import run_spec

MACHINE = {"device": "a made-up <machine>", "threads": 1, "torch": "2.11"}
EVALUATIONS = 10


def metrics(top1: float, points: int = EVALUATIONS) -> list[dict[str, object]]:
    """A curve that rises to `top1`, with training records between."""
    out: list[dict[str, object]] = []
    for i in range(1, points + 1):
        out.append({"kind": "train", "step": 10 * i, "samples": 640 * i, "loss": 2.3 / i, "lr": 1e-3})
        out.append(
            {
                "kind": "eval",
                "step": 10 * i,
                "samples": 640 * i,
                "loss": 2.3 / i,
                "top1": top1 * (1 - 0.5 / i) if i < points else top1,
            }
        )
    return out


def spectra(log_kappa: float, layers: int = 3, points: int = EVALUATIONS) -> list[dict[str, object]]:
    """kappa that falls to exp(log_kappa), with a little to each layer."""
    middle = (layers - 1) / 2
    return [
        {
            "step": 10 * i,
            "kind": "softmax",
            "layer": layer,
            "gaussian_log_kappa": 1.0,
            "mean_kappa": math.exp(log_kappa + 1),
            "head_correlation": None,
            "log_kappa": log_kappa + (points - i) / 5 + layer - middle,
        }
        for i in range(points + 1)
        for layer in range(layers)
    ]


def result(top1: float, seconds: float, guess: float | None = None) -> dict[str, object]:
    """What training writes last. `guess` is what a constant guess scores."""
    trivial = {} if guess is None else {"trivial": {"top1": guess}}
    return trivial | {
        "score": {"loss": 0.5, "top1": top1},
        "better": ["top1", "up"],
        "best": {"top1": top1, "step": 100},
        "steps": 100,
        "samples": 6400,
        "timing": {"seconds": seconds, "rate": 640.0, "unit": "images/s"},
        "machine": MACHINE,
    }


def finish(path: Path, spec: RunSpec, top1: float, log_kappa: float = 5.0, seconds: float = 12.0) -> Run:
    """A finished run, written as training writes it."""
    run = Run.create(path, spec)
    with run.locked():
        for record in metrics(top1):
            run.metrics.append(record)
        for record in spectra(log_kappa):
            run.spectra.append(record)
        run.finish(result(top1, seconds))
    return run


def comparison(root: Path, experiment: Experiment, scale: str, top1: dict[str, Sequence[float]]) -> list[Run]:
    """Every run of an experiment, with these final accuracies by arm and seed; kappa is lower for lean."""
    runs = []
    for spec in specs(experiment, scale):
        arm = spec.label["arm"]
        kappa = (4.0 if arm == "lean" else 6.0) + 0.01 * spec.seed
        runs.append(finish(folder(root, spec), spec, top1[arm][spec.seed], kappa))
    return runs


def put(
    path: Path,
    spec: RunSpec,
    top1: float,
    log_kappa: float = 5.0,
    points: int = EVALUATIONS,
    guess: float | None = None,
) -> None:
    """A finished run, written without waiting for the disk."""
    path.mkdir(parents=True)
    (path / "spec.json").write_text(json.dumps(spec.to_dict() | {"id": spec.id}))
    (path / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in metrics(top1, points)))
    (path / "spectra.jsonl").write_text("".join(json.dumps(record) + "\n" for record in spectra(log_kappa)))
    (path / "result.json").write_text(json.dumps({"schema": 1, "id": spec.id, "result": result(top1, 9.0, guess)}))


def quick(root: Path, experiment: Experiment, scale: str, top1: Callable[[RunSpec], float]) -> None:
    """Every run of an experiment, with the accuracy that `top1` says."""
    for spec in specs(experiment, scale):
        put(folder(root, spec), spec, top1(spec))


def many(root: Path, spec: RunSpec, arms: int, seeds: int) -> None:
    """Thousands of finished runs."""
    for arm in range(arms):
        for seed in range(seeds):
            label = {"experiment": "many", "scale": "small", "arm": f"arm{arm}"}
            one = run_spec(spec.arch, spec.task, spec.recipe, seed, label)
            put(root / f"arm{arm}-s{seed}", one, 0.5 + 0.01 * arm + 0.001 * (seed % 7), points=50)
