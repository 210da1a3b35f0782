"""Callbacks that log kappa (the condition number of the concatenated heads) while another library trains.

One is for the Hugging Face Trainer, one for Lightning. Both are functions that return the callback, because its class
derives from a class of a library that is imported only when the callback is asked for.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from manyheads.conditioning.monitor import Probe, ProbeReading
from manyheads.spec.errors import UserError, optional


def KappaCallback(batch: Any, *, every: int, **options: Any) -> Any:
    """A callback for `transformers.Trainer(callbacks=[KappaCallback(batch, every=50)])`.

    It probes before the first step and after every `every` steps, and logs the mean log kappa of each kind of attention
    with `Trainer.log`: trackers such as TensorBoard and W&B get it, and so does `state.log_history`. All readings are in
    `.monitor.readings`. `options` are those of `Probe`."""
    transformers = optional("transformers", "manyheads[hf]")

    class KappaInTrainer(transformers.TrainerCallback):  # type: ignore[name-defined]
        def __init__(self) -> None:
            self.monitor = _monitor(batch, every, options)

        def _log(self, state: Any, control: Any, model: Any) -> Any:
            if reading := self.monitor.probe_if_due(state.global_step, model):
                asked = control.should_log  # logging answers this question, which is about the loss of the step
                _caller(transformers.Trainer).log(reading.scalars())
                control.should_log = asked
            return control

        def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **others: Any) -> Any:
            # a resumed run logged its first reading before it was interrupted
            return self._log(state, control, model) if state.global_step == 0 else control

        def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **others: Any) -> Any:
            return self._log(state, control, model)

    return KappaInTrainer()


def _caller(kind: type) -> Any:
    """The object of type `kind` whose method called, directly or not. A callback is told everything but which Trainer
    it belongs to, and only the Trainer reaches the trackers, which stand before a user's callbacks."""
    frame = inspect.currentframe()
    while frame is not None:
        owner = frame.f_locals.get("self")
        if isinstance(owner, kind):
            return owner
        frame = frame.f_back
    raise UserError(f"this callback logs through the {kind.__name__} that calls it, and none does; give it to one")


def LightningKappaCallback(batch: Any, *, every: int, **options: Any) -> Any:
    """A callback for `lightning.Trainer(callbacks=[LightningKappaCallback(batch, every=50)])`.

    It calls the LightningModule's `forward` with `batch` before the first step and after every `every` optimiser
    steps, and sends the mean log kappa of each kind of attention to the trainer's loggers. All readings are in
    `.monitor.readings`. `options` are those of `Probe`."""
    lightning = optional("lightning.pytorch", "manyheads[lightning]")

    class KappaInLightning(lightning.Callback):  # type: ignore[name-defined]
        def __init__(self) -> None:
            self.monitor = _monitor(batch, every, options)
            self.last = -1

        def _log(self, trainer: Any, module: Any) -> None:
            step = trainer.global_step
            if step == self.last:  # with accumulated gradients, several batches make one step
                return
            self.last = step
            if reading := self.monitor.probe_if_due(step, module):
                for logger in trainer.loggers:
                    logger.log_metrics(reading.scalars(), step=step)

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            if trainer.global_step == 0:
                self._log(trainer, pl_module)

        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            self._log(trainer, pl_module)

    return KappaInLightning()


def _monitor(batch: Any, every: int, options: dict[str, Any]) -> Probe:
    """A probe that keeps its readings even where the user's own `callback` receives them as well."""
    users: Callable[[ProbeReading], None] | None = options.get("callback")
    monitor = Probe(every=every, batch=batch, **(options | {"callback": None}))
    if users is not None:
        keep = monitor.callback

        def both(reading: ProbeReading) -> None:
            keep(reading)
            users(reading)

        monitor.callback = both
    return monitor
