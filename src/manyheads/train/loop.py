"""`train(run)`: the training loop. It trains what the run's specification says, resumes, and writes the run folder.

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
from manyheads.runs import JsonLines, Run
from manyheads.spec.measurements import Measurement
from manyheads.spec.recipe import Recipe
from manyheads.spec.schedule import beta1, factor
from manyheads.tasks import Work

from .budget import Clock, TrainingBudget, budget, check_ramp
from .early_end import Diverged, Stopped, StopRequest, exclusive, listening
from .estimate import explain_out_of_memory
from .finetune import check_weights, ensure_begun
from .numerics import numerics, uses_half
from .optimizer import set_lr
from .parallel import Parallel, Ranks, joined
from .progress import Style, Watch, watch
from .results import evaluate, measure, result, save_model
from .sharding import initial_model
from .step import make_step
from .training_state import TrainingState

STATUS_EVERY = 2.0  # seconds
COLD = 5  # first steps of a process on a GPU: they compile and record the step, so the clock does not count them
TOLERATED = 0.05  # share of the time that may be spent waiting for data without a warning


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
    on_device: int | None = 1,
) -> dict[str, Any]:
    """Train `run` to the end of its budget and return its result; for a finished run, return that at once.

    Training resumes from the newest checkpoint. On SIGTERM or SIGINT it finishes the step, saves, and raises `Stopped`.
    `root` is the folder of the data; `events` writes TensorBoard events into the run folder; `weights` is the folder of
    the model that a run with stated weights starts from (`train.finetune`). `on_device` is the largest number of runs
    that share the device meanwhile, this one included (None: unknown); it is written beside the times. A process
    keeps what it compiled for its latest designs, so that another seed of one does not compile again."""
    if run.result is not None:
        run.drop_checkpoints()
        return run.result
    started = time.monotonic()
    recipe, task = run.spec.recipe, run.spec.task
    tasks.check(task, run.spec.arch)
    check_ramp(recipe, task)
    check_weights(run.spec, weights)
    if isinstance(task, Measurement):
        with joined("none", device) as ranks, exclusive(run, ranks):
            # another process may have finished it meanwhile
            return run.result or measure(run, task, recipe, ranks, on_device)
    with joined(parallel, device) as ranks, exclusive(run, ranks), listening() as stop, numerics(recipe, ranks.device):
        if ranks.agree(float(run.result is not None))[0]:  # another process finished the run while this one waited
            return run.result or {}
        ranks.check(recipe.batch, recipe.accumulate)
        with explain_out_of_memory(run.spec.arch, recipe, ranks):
            work = tasks.open_task(task, ranks.device, run.spec.seed, recipe.dealt, root=root)
            # now, and not at the end: it is to be that of the data which is trained on
            digest = tasks.data_digest(task, root=root) if ranks.first else None
            spend = budget(recipe, run.spec.arch, unit=work.unit, per_sample=work.per_sample, samples=work.samples)
            style = "none" if quiet or not ranks.first else progress
            folder = run.path / "events" if events and ranks.first else None
            view = watch(style, run.path.name, spend, work.unit, folder)
            try:
                if remark := tasks.remark(task):
                    view.say(remark)
                ensure_begun(run, ranks, weights, view.say)
                session = Session(
                    run,
                    recipe,
                    work,
                    budget=spend,
                    ranks=ranks,
                    watch=view,
                    stop=stop,
                    on_device=on_device,
                    data_sha256=digest,
                    started=started,
                )
                return session.train()
            finally:
                view.close()


class Session:
    """One process's training of one run, from its newest checkpoint to its end."""

    def __init__(
        self,
        run: Run,
        recipe: Recipe,
        work: Work,
        *,
        budget: TrainingBudget,
        ranks: Ranks,
        watch: Watch,
        stop: StopRequest,
        on_device: int | None,
        data_sha256: str | None,
        started: float,
    ) -> None:
        self.run, self.recipe, self.work, self.data_sha256 = run, recipe, work, data_sha256
        self.budget, self.ranks, self.watch, self.stop, self.started = budget, ranks, watch, stop, started
        model = initial_model(run.spec.arch, recipe.rates, run.spec.seed, ranks)
        model.train()
        limit = recipe.explode * work.trivial()["loss"] or float("inf")
        self.state = TrainingState.new(run, recipe, ranks, model, limit)
        self.state.on_device = on_device
        self.elapsed = self.state.resume(watch.say)
        self.step = make_step(model, work, self.state.optimizer, recipe, ranks, run.spec.seed, self.state.average)
        self.half = uses_half(recipe, ranks.device)
        self.lr = 0.0
        self.cold = COLD if ranks.device.type == "cuda" else 0
        self.numbers: dict[str, float] = {}  # the latest loss and score, for the progress bar
        self.probing = work.probe_batch(recipe.probe_samples) if recipe.probe_every else None
        self.seen = {self.state.step: self.samples}  # samples before each step since the last log
        self.began, self.since, self.status_at = self.elapsed, (self.samples, self.elapsed), 0.0

    @property
    def samples(self) -> int:
        """Samples seen so far."""
        return self.state.samples if self.recipe.ramp else self.state.step * self.recipe.batch

    def train(self) -> dict[str, Any]:
        """Train to the end of the budget and return the result."""
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
            stop = int(self.ranks.agree(self.stop.number)[0])  # any process may have been sent the signal
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
        """Make one step at the learning rate that the schedule has for it."""
        state, recipe = self.state, self.recipe
        progress, parts = (
            self.budget.midpoint(state.step, self.elapsed),
            self.budget.parts(recipe, state.step, self.elapsed),
        )
        self.lr = recipe.lr * factor(recipe.schedule, progress)
        set_lr(state.optimizer, self.lr, beta1(recipe.schedule, progress))
        with self.clock.stopped() if self.cold else nullcontext():
            state.losses.put(state.step, self.step(state.step, parts, self.samples // recipe.rows))
        state.step += 1
        state.samples += parts * recipe.rows if recipe.ramp else 0
        self.seen[state.step] = self.samples
        self.cold = max(0, self.cold - 1)
        self.clock.pace()

    def read_clock(self) -> float:
        """The elapsed seconds. On the `seconds` basis all processes take the first one's, so that they stop
        together."""
        elapsed = self.clock.read()
        return self.ranks.agree(elapsed if self.ranks.first else 0.0)[0] if self.budget.steps is None else elapsed

    def log(self) -> None:
        """Log the mean loss since the last log. Training that has diverged ends here."""
        state = self.state
        mean = self.mean_loss()
        state.losses.logged = state.step
        elapsed = self.clock.read()
        rate = (self.samples - self.since[0]) * self.work.per_sample / max(elapsed - self.since[1], 1e-9)
        self.since = self.samples, elapsed
        if mean is not None:
            batch = {"batch": self.samples - self.seen[state.step - 1]} if self.recipe.ramp else {}
            self.write({"kind": "train", "loss": mean, "lr": self.lr} | batch)
            self.write_line(self.run.timings, {"step": state.step, "seconds": elapsed, "rate": rate})
            self.numbers["loss"] = mean
            self.watch.record(state.step, {"train/loss": mean, "train/lr": self.lr})
        self.seen = {state.step: self.samples}
        self.watch.move(state.step, self.budget.progress(state.step, elapsed), rate, self.numbers)
        if time.monotonic() - self.status_at > STATUS_EVERY:
            self.status()

    def mean_loss(self) -> float | None:
        """The mean of the losses not yet logged. Where training has diverged, the first bad step is recorded."""
        try:
            return self.state.losses.mean(self.state.step, self.lr)
        except Diverged as error:
            self.write({"kind": "diverged", "loss": error.loss, "lr": self.lr}, step=error.step)
            raise

    def evaluate(self) -> None:
        """Write the task's scores to the metrics."""
        with self.clock.stopped():
            state = self.state
            scores = evaluate(state.model, self.work, self.ranks, half=self.half, average=state.average)
            self.write({"kind": "eval"} | scores)
            headline = self.work.better[0]
            self.numbers[headline if headline != "loss" else "held-out loss"] = scores[headline]
            self.watch.record(state.step, {f"eval/{name}": value for name, value in scores.items()})

    def probe(self) -> None:
        """Write how well every attention is conditioned to the spectra. Under FSDP all processes take part."""
        if self.probing is None or not (self.ranks.first or self.ranks.kind == "fsdp"):
            return
        with self.clock.stopped():
            sites = probe(
                self.state.model, self.probing, detail=self.recipe.probe_detail, jacobian=self.recipe.probe_jacobian
            )
            reading = ProbeReading(self.state.step, sites)
            for record in reading.records():
                self.write_line(self.run.spectra, record)
            self.watch.record(self.state.step, reading.scalars())

    def save(self) -> None:
        """Write a checkpoint, unless training has diverged."""
        with self.clock.stopped():
            self.mean_loss()
            elapsed = max(self.elapsed, self.clock.counted)
            if self.budget.steps is None:  # as in `read_clock`
                elapsed = self.ranks.agree(elapsed if self.ranks.first else 0.0)[0]
            self.elapsed = elapsed
            self.state.save(self.elapsed)

    def write(self, record: dict[str, Any], step: int | None = None) -> None:
        """Write a line of metrics, at this step unless another is given."""
        at = self.state.step if step is None else step
        self.write_line(self.run.metrics, {"step": at, "samples": self.seen[at]} | record)

    def write_line(self, lines: JsonLines, record: dict[str, Any]) -> None:
        """Append a line to one of the run's files; the first process does."""
        if self.ranks.first:
            lines.append(record)

    def status(self, state: str = "running") -> None:
        """Write where the run stands, for whoever looks at the folder."""
        self.status_at = time.monotonic()
        if self.ranks.first:
            done = self.budget.progress(self.state.step, self.elapsed)
            self.run.write_status(state=state, step=self.state.step, total=self.budget.steps, progress=done)

    def finish(self) -> dict[str, Any]:
        """Write the model, then the result, with which the run is done; checkpoints are deleted."""
        run, state = self.run, self.state
        self.elapsed = self.clock.read()  # the last evaluation waited for the device, so this time is right
        save_model(run, state.model, state.average, self.ranks)
        outcome: dict[str, Any] = {}
        if self.ranks.first:
            waited = self.work.waited / max(self.elapsed - self.began, 1e-9)
            if waited > TOLERATED:
                self.watch.say(f"{100 * waited:.0f} % of the time was spent waiting for data: reading it is too slow")
            outcome = result(
                run,
                self.recipe,
                self.work,
                self.ranks,
                steps=state.step,
                samples=self.samples,
                seconds=self.elapsed,
                waited=waited,
                overhead=max(0.0, time.monotonic() - self.started - (self.elapsed - self.began)),
                on_device=state.on_device,
                data_sha256=self.data_sha256,
            )
            self.status()
            run.finish(outcome)
            run.drop_checkpoints()
        self.ranks.wait()
        return outcome if self.ranks.first else run.result or {}
