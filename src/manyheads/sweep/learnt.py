"""How long a run takes, learnt from finished runs in folders and packs.

A finished run that differs in its seed alone says it directly. Otherwise the time that is counted from operations and
layers is corrected by the factor between measured and counted time of the finished runs most like it: on the same
device, and as near as there are in task, family, numerics, operations of a step, and layers. Leaving out one of the 108
runs of `evidence/rank_n_small_h200.jsonl.xz` at a time, the median error is 15 %; leaving out all runs of its arm, 7 %;
of its length, 10 % (`tests/sweep/test_learnt.py`)."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from manyheads.runs import RunFolder, RunSpec
from manyheads.spec.measurements import Measurement

SPEED = {"cpu": 0.025, "cuda": 60.0}  # TFLOPS that training reaches: a core, and 0.4 of an A100 in TF32
LAYER = {"cpu": 1e-3, "cuda": 1e-4}  # seconds of overhead for every layer of a step
PROCESSORS = ("x86_64", "AMD64", "arm64", "aarch64", "i386")  # what a result calls a device that is no GPU
# the distance of two runs is that of the logarithms of a step's operations and of the layers, and for what differs:
OTHER = {"task": 2.0, "family": 1.0, "numerics": 0.5, "gpu": 1.0}
FAR = 4.0  # beyond this a run says nothing about another
BESIDE = 0.7  # runs that are farther than the nearest one by less than this are asked as well
ASKED = 12  # at most so many


@dataclass(frozen=True)
class Size:
    """What a run's time depends on."""

    flops: float
    steps: int
    layers: int

    def counted(self, kind: str, threads: int) -> float:
        """Seconds by operations and layers alone, on a `kind` of device (cpu or cuda)."""
        speed = 1e12 * SPEED.get(kind, SPEED["cuda"]) * (threads if kind == "cpu" else 1)
        return self.flops / speed + self.steps * self.layers * LAYER.get(kind, LAYER["cuda"])


@dataclass(frozen=True)
class MeasuredTime:
    """What one finished run took: `seconds` of training, corrected for company on its device, and the `overhead`
    beside it where that was recorded."""

    spec: RunSpec
    name: str
    place: Path
    device: str | None
    threads: int
    seconds: float
    overhead: float | None
    size: Size | None


@dataclass(frozen=True)
class Guess:
    """What a run would take, and where that is known from."""

    seconds: float
    overhead: float | None
    source: str


class Learnt:
    """The times of finished runs on a `kind` of device. Of GPUs, those of the same `name` are asked before others."""

    def __init__(
        self,
        runs: Iterable[RunFolder],
        kind: str,
        alone: Callable[[int], float],
        *,
        name: str | None = None,
        threads: int = 1,
    ) -> None:
        """`alone` says which share of its own speed a run has among so many."""
        self.kind, self.name, self.threads = kind, name, threads
        measured = (_measured(run, alone) for run in runs)
        self.times = [one for one in measured if one is not None and _kind(one.device) in (kind, None)]
        self._same: dict[str, list[MeasuredTime]] = {}
        for one in self.times:
            self._same.setdefault(but_seed(one.spec), []).append(one)

    @property
    def places(self) -> dict[Path, int]:
        """The packs and folders that times are learnt from, and how many runs of each."""
        counts: dict[Path, int] = {}
        for one in self.times:
            counts[one.place] = counts.get(one.place, 0) + 1
        return counts

    def same(self, spec: RunSpec, size: Size | None) -> Guess | None:
        """What a run would take, by finished runs that differ in their seed alone; None where there is none."""
        same = self._same.get(but_seed(spec), [])
        asked = [one for one in same if one.device in (self.name, None)] or same
        return self._of(asked, size, _count(len(asked), "finished run") + " of the same arm") if asked else None

    def guess(self, spec: RunSpec, size: Size | None) -> Guess | None:
        """What a run would take that has its device to itself; None where no finished run is near. Where its `size` is
        unknown, only runs that differ in their seed are asked."""
        told = self.same(spec, size)
        if told is not None or size is None or isinstance(spec.task, Measurement):
            return told
        near = sorted(((self.distance(spec, size, one), i) for i, one in enumerate(self.times) if one.size is not None))
        near = [(distance, i) for distance, i in near[:ASKED] if distance <= min(FAR, near[0][0] + BESIDE)]
        if not near:
            return None
        asked = [self.times[i] for _, i in near]
        return self._of(asked, size, f"{_count(len(asked), 'finished run')} like {asked[0].name}")

    def distance(self, spec: RunSpec, size: Size, one: MeasuredTime) -> float:
        """How unlike a run a finished one is."""
        assert one.size is not None
        far = abs(math.log(size.flops / size.steps) - math.log(one.size.flops / one.size.steps))
        far += abs(math.log(size.layers / one.size.layers))
        far += OTHER["task"] * (type(spec.task) is not type(one.spec.task))
        far += OTHER["family"] * (spec.arch.family != one.spec.arch.family)
        far += OTHER["numerics"] * (_numerics(spec) != _numerics(one.spec))
        return far + OTHER["gpu"] * (one.device != self.name and self.name is not None)

    def _of(self, asked: list[MeasuredTime], size: Size | None, source: str) -> Guess:
        seconds = statistics.median(self._seconds(one, size) for one in asked)
        return Guess(seconds, _overhead(asked), source + self._elsewhere(asked))

    def _seconds(self, one: MeasuredTime, size: Size | None) -> float:
        if size is None or one.size is None:
            return one.seconds
        return one.seconds * size.counted(self.kind, self.threads) / one.size.counted(self.kind, one.threads)

    def _elsewhere(self, asked: list[MeasuredTime]) -> str:
        others = {one.device for one in asked} - {self.name, None}
        return f", on {min(map(str, others))}" if self.name is not None and others else ""


@lru_cache(maxsize=4096)
def but_seed(spec: RunSpec) -> str:
    """What the runs of one arm that differ in their seed have in common."""
    return json.dumps({**spec.to_dict(), "seed": 0, "label": {}}, sort_keys=True)


def layers(spec: RunSpec) -> int:
    """The number of layers of a run's model."""
    return sum(stage.depth * len(stage.unit) for stage in spec.arch.stages)


def _measured(run: RunFolder, alone: Callable[[int], float]) -> MeasuredTime | None:
    """What a finished run took; None for one that is not finished, or whose result does not say it."""
    result, spec = run.result or {}, run.spec
    timing, machine = result.get("timing"), result.get("machine")
    machine = machine if isinstance(machine, dict) else {}
    if run.state != "done" or spec is None or not isinstance(timing, dict) or not _positive(timing.get("seconds")):
        return None
    beside = timing.get("on_device")
    beside = beside if type(beside) is int and beside > 0 else 1  # unknown: no faster than it was
    threads, overhead = machine.get("threads"), timing.get("overhead")
    known = _positive(result.get("flops")) and _positive(result.get("steps"))
    return MeasuredTime(
        spec=spec,
        name=str(spec.label.get("arm") or run.path.name),
        place=run.place if run.packed is not None else run.path.parent,
        device=machine.get("device"),
        threads=threads if type(threads) is int and threads > 0 else 1,
        seconds=float(timing["seconds"]) * alone(beside),
        overhead=float(overhead) if isinstance(overhead, int | float) and overhead >= 0 else None,
        size=Size(float(result["flops"]), int(result["steps"]), layers(spec)) if known else None,
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e300


def _kind(device: str | None) -> str | None:
    return None if device is None else "cpu" if device in PROCESSORS else "cuda"


def _numerics(spec: RunSpec) -> tuple[object, ...]:
    return spec.recipe.precision, spec.recipe.compile, spec.recipe.capture


def _overhead(asked: list[MeasuredTime]) -> float | None:
    known = [one.overhead for one in asked if one.overhead is not None]
    return statistics.median(known) if known else None
