"""`train(run)`: the one loop. It trains what the run's specification says, resumes, and writes the run folder.

Records in metrics.jsonl are of three kinds: `train` (mean loss since the last one, learning rate), `eval` (the task's
scores) and, where training went wrong, `diverged`. spectra.jsonl has one record for each attention at each probed step.
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

from manyheads import tasks
from manyheads.conditioning.monitor import ProbeReading
from manyheads.conditioning.probe import probe
from manyheads.runs import Run
from manyheads.spec.recipe import Recipe
from manyheads.spec.schedule import beta1, factor
from manyheads.tasks import Work
from manyheads.tasks.measurement import Measurement

from . import checkpoint, ramp, start
from .average import Average
from .budget import Budget, budget
from .clock import Clock
from .evaluate import evaluate
from .finish import result, save_model
from .guard import Diverged, Losses
from .measured import measured
from .memory import explained
from .optimizer import adamw, set_lr
from .parallel import Parallel, Ranks, joined
from .place import place
from .progress import Style, Watch, watch
from .state import State
from .step import make_step, numerics, uses_half
from .stop import Asked, Stopped, held, listening

STATUS_EVERY = 2.0  # seconds
COLD = 5  # steps of a process that compile and record: no measure of a model's speed, so the clock stands still
TOLERATED = 0.05  # of the time, waiting for data


def train(
    run: Run,
    *,
    device: torch.device | str | None = None,
    parallel: Parallel = "none",
    progress: Style | Watch = "auto",
    root: Path | None = None,
    quiet: bool = False,
    events: bool = False,
    weights: Path | str | None = None,
) -> dict[str, Any]:
    """Train `run` to the end of its budget and give its result; a finished run gives it at once.

    It starts where the newest checkpoint stands. Asked to stop by SIGTERM or SIGINT it finishes the step, saves, and
    raises `Stopped`. `root` is where data lies, `events` writes TensorBoard events into the run folder; `weights` is
    the folder of the model that a fine-tuning run starts from (`train.start`). A recipe that compiles has this process
    forget what it compiled before."""
    if (done := run.result) is not None:
        return done
    recipe = Recipe.from_dict(run.spec.recipe)
    task = tasks.from_dict(run.spec.task)
    task.check(run.spec.arch)
    ramp.check(recipe, task)
    start.check(task, weights)
    if isinstance(task, Measurement):
        with joined("none", device) as ranks, held(run, ranks):
            return measured(run, task, ranks)
    with joined(parallel, device) as ranks, held(run, ranks), listening() as asked, numerics(recipe, ranks.device):
        if ranks.agree(float(run.result is not None))[0]:  # somebody else had the folder, and has finished it
            return run.result or {}
        ranks.check(recipe.batch, recipe.accumulate)
        with explained(run.spec.arch, recipe, ranks):
            work = task.open(ranks.device, run.spec.seed, recipe.dealt, root=root)
            spend = budget(recipe, run.spec.arch, unit=work.unit, per_sample=work.per_sample, samples=work.samples)
            style = "none" if quiet or not ranks.first else progress
            look = watch(
                style, run.path.name, spend, work.unit, run.path / "events" if events and ranks.first else None
            )
            try:
                start.started(run, task, ranks, weights, look.say)
                return Session(run, recipe, work, spend, ranks, look, asked).train()
            finally:
                look.close()


class Session:
    """One process's training of one run, from where it stands to its end."""

    def __init__(
        self, run: Run, recipe: Recipe, work: Work, spend: Budget, ranks: Ranks, look: Watch, asked: Asked
    ) -> None:
        self.run, self.recipe, self.work, self.budget = run, recipe, work, spend
        self.ranks, self.watch, self.asked = ranks, look, asked
        model = place(run.spec.arch, recipe.rates, run.spec.seed, ranks)
        model.train()
        average = Average(model, recipe.ema) if recipe.ema else None
        limit = recipe.explode * work.trivial()["loss"] or float("inf")
        losses = Losses(recipe.log_every, limit, ranks)
        self.state = State(run, ranks, model, adamw(model, recipe), average, losses)
        self.elapsed = self.state.resume(look.say)
        self.step = make_step(model, work, self.state.optimizer, recipe, ranks, run.spec.seed, average)
        self.half = uses_half(recipe, ranks.device)
        self.lr = 0.0
        self.cold = COLD if ranks.device.type == "cuda" else 0
        self.numbers: dict[str, float] = {}  # the latest, for people
        self.probing = work.probe_batch(recipe.probe_samples) if recipe.probe_every else None
        self.seen = {self.state.step: self.samples}  # before each step since the last log
        self.began, self.since, self.status_at = self.elapsed, (self.samples, self.elapsed), 0.0

    @property
    def samples(self) -> int:
        """Samples seen so far."""
        return self.state.samples if self.recipe.ramp else self.state.step * self.recipe.batch

    def train(self) -> dict[str, Any]:
        """Step by step to the end of the budget."""
        state, recipe, due = self.state, self.recipe, self.budget.due
        self.status()
        self.clock = Clock(self.ranks.device, self.elapsed)
        if state.step == 0:
            self.probe()
        over = False
        while not self.budget.spent(state.step, self.elapsed):
            self.make_step()
            before, self.elapsed = self.elapsed, self.read_clock()
            over = self.budget.spent(state.step, self.elapsed)
            if state.step % recipe.log_every == 0 or over:
                self.log()
            if over or due(recipe.evaluate_every, state.step, before, self.elapsed):
                self.evaluate()
            if (over and recipe.probe_every) or due(recipe.probe_every, state.step, before, self.elapsed):
                self.probe()
            stop = int(self.ranks.agree(self.asked.number)[0])  # any process may have been sent the signal
            if not over and (stop or due(recipe.checkpoint_every, state.step, before, self.elapsed)):
                self.save()
            if not over and stop:
                self.status("stopped")
                raise Stopped(self.run.path, state.step, stop)
        if not over:  # the time ran out while a checkpoint was written
            self.evaluate()
            self.probe()
        return self.finish()

    def make_step(self) -> None:
        """One step at the learning rate of this moment."""
        state, recipe = self.state, self.recipe
        now, parts = self.budget.now(state.step, self.elapsed), self.budget.parts(recipe, state.step, self.elapsed)
        self.lr = recipe.lr * factor(recipe.schedule, now)
        set_lr(state.optimizer, self.lr, beta1(recipe.schedule, now))
        with self.clock.stopped() if self.cold else nullcontext():
            state.losses.put(state.step, self.step(state.step, parts, self.samples // recipe.rows))
        state.step += 1
        state.samples += parts * recipe.rows if recipe.ramp else 0
        self.seen[state.step] = self.samples
        self.cold = max(0, self.cold - 1)
        self.clock.pace()

    def read_clock(self) -> float:
        """The elapsed seconds; where they decide anything, by the first process's clock in all processes."""
        elapsed = self.clock.read()
        return self.ranks.agree(elapsed if self.ranks.first else 0.0)[0] if self.budget.steps is None else elapsed

    def log(self) -> None:
        """The mean loss since the last time; training that went wrong ends here."""
        state = self.state
        mean = self.mean_loss()
        state.losses.told(state.step)
        elapsed = self.clock.read()
        rate = (self.samples - self.since[0]) * self.work.per_sample / max(elapsed - self.since[1], 1e-9)
        self.since = self.samples, elapsed
        if mean is not None:
            grown = {"batch": self.samples - self.seen[state.step - 1]} if self.recipe.ramp else {}
            self.write({"kind": "train", "loss": mean, "lr": self.lr} | grown)
            self.run_line("timings", {"step": state.step, "seconds": elapsed, "rate": rate})
            self.numbers["loss"] = mean
            self.watch.record(state.step, {"train/loss": mean, "train/lr": self.lr})
        self.seen = {state.step: self.samples}
        self.watch.move(state.step, self.budget.progress(state.step, elapsed), rate, self.numbers)
        if time.monotonic() - self.status_at > STATUS_EVERY:
            self.status()

    def mean_loss(self) -> float | None:
        """The mean of the losses not yet told; where training went wrong, the first bad step is recorded."""
        try:
            return self.state.losses.look(self.state.step, self.lr)
        except Diverged as wrong:
            self.write({"kind": "diverged", "loss": wrong.loss, "lr": self.lr}, step=wrong.step)
            raise

    def evaluate(self) -> None:
        """The task's scores, to the metrics."""
        with self.clock.stopped():
            state = self.state
            scores = evaluate(state.model, self.work, self.ranks, half=self.half, average=state.average)
            self.write({"kind": "eval"} | scores)
            headline = self.work.better[0]
            self.numbers[headline if headline != "loss" else "held-out loss"] = scores[headline]
            self.watch.record(state.step, {f"eval/{name}": value for name, value in scores.items()})

    def probe(self) -> None:
        """How well every attention is conditioned, to the spectra. Under FSDP all processes take part."""
        if self.probing is None or not (self.ranks.first or self.ranks.kind == "fsdp"):
            return
        with self.clock.stopped():
            sites = probe(
                self.state.model, self.probing, detail=self.recipe.probe_detail, jacobian=self.recipe.probe_jacobian
            )
            reading = ProbeReading(self.state.step, sites)
            for record in reading.records():
                self.run_line("spectra", record)
            self.watch.record(self.state.step, reading.scalars())

    def save(self) -> None:
        """A checkpoint, unless what it would hold has gone wrong."""
        with self.clock.stopped():
            self.mean_loss()
            elapsed = max(self.elapsed, self.clock.counted)
            if self.budget.steps is None:  # the clock decides: that of the first process, in all of them
                elapsed = self.ranks.agree(elapsed if self.ranks.first else 0.0)[0]
            self.elapsed = elapsed
            self.state.save(self.elapsed)

    def write(self, record: dict[str, Any], step: int | None = None) -> None:
        """A line of metrics, at this step unless another is given."""
        at = self.state.step if step is None else step
        self.run_line("metrics", {"step": at, "samples": self.seen[at]} | record)

    def run_line(self, name: str, record: dict[str, Any]) -> None:
        """A line in one of the run's files, by the first process alone."""
        if self.ranks.first:
            getattr(self.run, name).append(record)

    def status(self, state: str = "running") -> None:
        """Where the run stands, for whoever looks at the folder."""
        self.status_at = time.monotonic()
        if self.ranks.first:
            done = self.budget.progress(self.state.step, self.elapsed)
            self.run.write_status(state=state, step=self.state.step, total=self.budget.steps, progress=done)

    def finish(self) -> dict[str, Any]:
        """The model, then the result: a run is done when that is written. Checkpoints have served."""
        run, state = self.run, self.state
        self.elapsed = self.clock.read()  # the last evaluation waited for the device, which the loop does not
        save_model(run, state.model, state.average, self.ranks)
        found: dict[str, Any] = {}
        if self.ranks.first:
            waited = self.work.waited / max(self.elapsed - self.began, 1e-9)
            if waited > TOLERATED:
                self.watch.say(f"{100 * waited:.0f} % of the time went by waiting for data: its input does not keep up")
            found = result(
                run,
                self.recipe,
                self.work,
                self.ranks,
                steps=state.step,
                samples=self.samples,
                seconds=self.elapsed,
                waited=waited,
            )
            self.status()
            run.finish(found)
            checkpoint.clear(run.checkpoints)
        self.ranks.wait()
        return found if self.ranks.first else run.result or {}
