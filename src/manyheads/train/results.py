"""What comes of a run: scores of the model, the saved model, and the result record. A run whose task is a measurement
trains nothing and has the same result record."""

from __future__ import annotations

import math
import time
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Any

import torch
from torch import nn

from manyheads import tasks
from manyheads.arch.count import params, training_flops
from manyheads.models.build import build
from manyheads.models.store import save
from manyheads.runs import Run
from manyheads.spec.errors import UserError
from manyheads.spec.measurements import Measurement
from manyheads.spec.recipe import Recipe
from manyheads.tasks import Work
from manyheads.tasks.validation import VALID

from .checkpoint import present
from .machine import machine
from .numerics import autocast
from .optimizer import Average
from .parallel import Ranks
from .sharding import reshard, share_statistics, whole


def evaluate(
    model: nn.Module, work: Work, ranks: Ranks, *, half: bool, average: Average | None = None
) -> dict[str, float]:
    """The task's scores of `model`, with averaged weights where there are some: each process tallies its share, and the
    sum is scored once. The model's mode and weights are afterwards as they were."""
    training = model.training
    model.eval()
    share_statistics(model, ranks)
    try:
        with average.inside() if average is not None else nullcontext(), torch.no_grad(), autocast(ranks.device, half):
            tally = work.tally(model, (ranks.rank, ranks.world))
            reshard(model, ranks)
        return work.score({name: ranks.sum(tensor) for name, tensor in sorted(tally.items())})
    finally:
        model.train(training)


def save_model(run: Run, model: nn.Module, average: Average | None, ranks: Ranks) -> None:
    """Write the model, with averaged weights where there are some. All processes take part; the first one writes."""
    weights = {}
    for name, tensor in model.state_dict().items():
        chosen = tensor if average is None else average.weights.get(name, tensor)
        full = whole(chosen.detach())
        if ranks.first:
            weights[name] = full.cpu()
    if not ranks.first:
        return
    plain = build(run.spec.arch, device="meta")
    plain.load_state_dict(weights, assign=True)
    try:
        save(plain, run.model)
    except UserError as error:
        kept = (
            "resumes from its last checkpoint"
            if present(run.checkpoints)
            else "has no checkpoint: it starts from step 0"
        )
        raise UserError(f"{error}; the run {kept}") from error


def result(
    run: Run,
    recipe: Recipe,
    work: Work,
    ranks: Ranks,
    *,
    steps: int,
    samples: int,
    seconds: float,
    waited: float = 0.0,
    overhead: float | None = None,
    on_device: int | None = 1,
    data_sha256: str | None = None,
) -> dict[str, Any]:
    """The result of a trained run. Everything but `timing` is the same whenever the run is repeated; in `timing`,
    `seconds` are those of training, `overhead` all others since the last start (data, compiling, evaluations, probes,
    checkpoints), `waited` is the share of the time since then that was spent waiting for data, and `on_device` the
    largest number of runs that shared the device at any time, this one included (null: unknown). `best` is the evaluation
    with the best headline, on the validation samples where the task has some: held-out samples are not chosen by.
    `data_sha256` (`tasks.data_digest`) is no part of the run's id: the same specification with other files of the same
    name gives another result, and this tells them apart."""
    metric, direction = work.better
    records = [record for record in run.metrics.read() if record["kind"] == "eval"]
    scores = [{name: value for name, value in record.items() if name not in ("kind", "samples")} for record in records]
    sign = 1 if direction == "up" else -1
    chosen_by = VALID + metric if all(VALID + metric in score for score in scores) else metric
    rate = samples * work.per_sample / max(seconds, 1e-9)
    return {
        "score": {name: value for name, value in scores[-1].items() if name != "step"},
        "best": max(scores, key=lambda score: _rank(score[chosen_by], sign)),  # the first of equals
        "better": [metric, direction],
        "trivial": work.trivial(),
        "steps": steps,
        "samples": samples,
        "held_out": work.held_out,
        work.unit: samples * work.per_sample,
        "flops": samples * training_flops(run.spec.arch),
        **_sizes(run),
        "averaged": bool(recipe.ema),
        "data_sha256": data_sha256,
        "machine": machine(recipe, ranks),
        "timing": {
            "seconds": seconds,
            "overhead": overhead,
            "rate": rate,
            "unit": f"{work.unit}/s",
            "waited": waited,
            "on_device": on_device,
            "finished": _now(),
        },
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _rank(value: float | None, sign: int) -> float:
    return -math.inf if value is None else sign * value


def _sizes(run: Run) -> dict[str, int]:
    count = params(run.spec.arch)
    return {"params": count.total, "non_embedding": count.non_embedding}


def measure(run: Run, task: Measurement, recipe: Recipe, ranks: Ranks, on_device: int | None = 1) -> dict[str, Any]:
    """Carry out a measurement, write its spectra and its result, and return the result. It has the fields of a trained
    run's, with no step and no sample."""
    run.write_status(state="running", step=0, total=None)
    run.spectra.cut(0)  # lines of a measurement that was killed
    began = time.perf_counter()
    findings = tasks.measure(task, run.spec.arch, run.spec.seed, ranks.device)
    seconds = time.perf_counter() - began
    for record in findings.spectra:
        run.spectra.append(record)
    outcome = {
        "score": findings.score,
        "best": findings.score | {"step": 0},
        "better": list(findings.better),
        "trivial": findings.trivial,
        "steps": 0,
        "samples": 0,
        "flops": 0,
        **_sizes(run),
        "averaged": False,
        "machine": machine(recipe, ranks),
        "timing": {
            "seconds": seconds,
            "rate": 1 / max(seconds, 1e-9),
            "unit": "measurements/s",
            "waited": 0.0,
            "on_device": on_device,
            "finished": _now(),
        },
    }
    run.finish(outcome)
    return outcome
