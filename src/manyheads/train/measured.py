"""A run whose task is a measurement: nothing is trained, and the folder is written all the same."""

from __future__ import annotations

import time
from typing import Any

from manyheads.arch.count import params
from manyheads.runs import Run
from manyheads.spec.recipe import Recipe
from manyheads.tasks.measurement import Measurement

from .finish import machine
from .parallel import Ranks


def measured(run: Run, task: Measurement, ranks: Ranks) -> dict[str, Any]:
    """Measure, write spectra and result, and give the result: it has what a trained run's has, and no step."""
    run.write_status(state="running", step=0, total=None)
    run.spectra.cut(0)  # what a killed measurement left
    began = time.perf_counter()
    found = task.measure(run.spec.arch, run.spec.seed, ranks.device)
    seconds = time.perf_counter() - began
    for record in found.spectra:
        run.spectra.append(record)
    result = {
        "score": found.score,
        "best": found.score | {"step": 0},
        "better": list(found.better),
        "trivial": {},
        "steps": 0,
        "samples": 0,
        "flops": 0,
        "params": params(run.spec.arch).total,
        "non_embedding": params(run.spec.arch).non_embedding,
        "averaged": False,
        "machine": machine(Recipe.from_dict(run.spec.recipe), ranks),
        "timing": {"seconds": seconds, "rate": 1 / max(seconds, 1e-9), "unit": "measurements/s", "waited": 0.0},
    }
    run.finish(result)
    return result
