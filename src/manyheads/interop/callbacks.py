"""Callbacks that log kappa (the condition number of the concatenated heads) while another library trains.

One is for the Hugging Face Trainer, one for Lightning. Both are functions that return the callback, because its class
derives from a class of a library that is imported only when the callback is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from manyheads.conditioning.monitor import Probe, ProbeReading
from manyheads.spec.errors import optional


def KappaCallback(batch: Any, *, every: int, **options: Any) -> Any:
    """A callback for `transformers.Trainer(callbacks=[KappaCallback(batch, every=50)])`.

    It probes before the first step and after every `every` steps. The mean log kappa of each kind of attention is
    added to the Trainer's `state.log_history`; all readings are in `.monitor.readings`. `options` are those of
    `Probe`."""
    transformers = optional("transformers", "manyheads[hf]")

    class KappaInTrainer(transformers.TrainerCallback):  # type: ignore[name-defined]
        def __init__(self) -> None:
            self.monitor = _monitor(batch, every, options)

        def _log(self, state: Any, model: Any) -> None:
            if reading := self.monitor.probe_if_due(state.global_step, model):
                state.log_history.append({"step": reading.step, "epoch": state.epoch} | reading.scalars())

        def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **others: Any) -> None:
            if state.global_step == 0:  # a resumed run logged its first reading before it was interrupted
                self._log(state, model)

        def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **others: Any) -> None:
            self._log(state, model)

    return KappaInTrainer()


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
