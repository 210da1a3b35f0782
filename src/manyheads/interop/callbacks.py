"""kappa during other libraries' training: callbacks for the Hugging Face Trainer and for Lightning.

Each is made by a function, so that a library is imported when its callback is asked for and not before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from manyheads.conditioning.monitor import Probe, Reading

from .extras import needed


def KappaCallback(batch: Any, *, every: int, **options: Any) -> Any:
    """A callback for `transformers.Trainer(callbacks=[KappaCallback(batch, every=50)])`.

    It probes before the first step and after every `every` steps. Mean log kappa of each kind joins the Trainer's
    `state.log_history`; all readings are in `.monitor.readings`. `options` are those of `Probe`."""
    transformers = needed("transformers", "hf")

    class Callback(transformers.TrainerCallback):  # type: ignore[name-defined]
        def __init__(self) -> None:
            self.monitor = _monitor(batch, every, options)

        def _read(self, state: Any, model: Any) -> None:
            if reading := self.monitor.probe_if_due(state.global_step, model):
                state.log_history.append({"step": reading.step, "epoch": state.epoch} | reading.scalars())

        def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **others: Any) -> None:
            if state.global_step == 0:  # a resumed run had its first reading before
                self._read(state, model)

        def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **others: Any) -> None:
            self._read(state, model)

    return Callback()


def LightningKappaCallback(batch: Any, *, every: int, **options: Any) -> Any:
    """A callback for `lightning.Trainer(callbacks=[LightningKappaCallback(batch, every=50)])`.

    It probes the LightningModule, which `batch` is given to as to its `forward`, before the first step and after every
    `every` optimiser steps, and logs mean log kappa of each kind to the trainer's loggers; all readings are in
    `.monitor.readings`. `options` are those of `Probe`."""
    lightning = needed("lightning.pytorch", "lightning")

    class Callback(lightning.Callback):  # type: ignore[name-defined]
        def __init__(self) -> None:
            self.monitor = _monitor(batch, every, options)
            self.last = -1

        def _read(self, trainer: Any, module: Any) -> None:
            step = trainer.global_step
            if step == self.last:  # accumulated gradients: several batches make one step
                return
            self.last = step
            if reading := self.monitor.probe_if_due(step, module):
                for logger in trainer.loggers:
                    logger.log_metrics(reading.scalars(), step=step)

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            if trainer.global_step == 0:
                self._read(trainer, pl_module)

        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            self._read(trainer, pl_module)

    return Callback()


def _monitor(batch: Any, every: int, options: dict[str, Any]) -> Probe:
    """A probe that keeps its readings also where the user wants them handed on."""
    hand_on: Callable[[Reading], None] | None = options.get("callback")
    monitor = Probe(every=every, batch=batch, **(options | {"callback": None}))
    if hand_on is not None:
        keep = monitor.callback

        def both(reading: Reading) -> None:
            keep(reading)
            hand_on(reading)

        monitor.callback = both
    return monitor
