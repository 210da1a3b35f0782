"""kappa in the real trainers of other libraries, beside losses that do not move."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from manyheads.interop.callbacks import KappaCallback, LightningKappaCallback
from manyheads.spec.errors import UserError
from tests.conditioning.others import make, words


def sequences() -> list[dict[str, Tensor]]:
    """A training set of four batches of two."""
    ids = torch.randint(1, 50, (8, 12), generator=torch.Generator().manual_seed(2))
    return [{"input_ids": row, "labels": row} for row in ids]


def trained(folder: Path, callbacks: list[Any], report_to: str = "none", every: int = 1) -> list[dict[str, Any]]:
    """The log of a real Trainer, which logs the loss `every` so many steps."""
    from transformers import Trainer, TrainingArguments

    model, _, _ = make("transformers GPT-2")
    arguments = TrainingArguments(
        str(folder),
        max_steps=4,
        per_device_train_batch_size=2,
        logging_steps=every,
        use_cpu=True,
        report_to=report_to,
        save_strategy="no",
        disable_tqdm=True,
        seed=3,
    )
    trainer = Trainer(model, arguments, train_dataset=sequences(), callbacks=callbacks)
    trainer.train()
    trainer.state.save_to_json(str(folder / "state.json"))
    return trainer.state.log_history


def test_the_hugging_face_trainer_logs_kappa_and_trains_the_same(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="transformers is in the hf extra")
    pytest.importorskip("accelerate", reason="the Trainer needs accelerate, which no extra brings")
    seen: list[int] = []
    callback = KappaCallback(words(), every=2, callback=lambda reading: seen.append(reading.step))
    plain, watched = trained(tmp_path, []), trained(tmp_path, [callback])
    assert [line["loss"] for line in plain if "loss" in line] == [line["loss"] for line in watched if "loss" in line]
    assert [reading.step for reading in callback.monitor.readings] == seen == [0, 2, 4]
    logged = [line for line in watched if "log_kappa/softmax" in line]
    assert [line["step"] for line in logged] == [0, 2, 4]
    assert len({line["log_kappa/softmax"] for line in logged}) == 3
    assert json.loads((tmp_path / "state.json").read_text())["log_history"] == watched


@pytest.mark.parametrize("every", [1, 2])
def test_the_trainers_trackers_are_told_kappa(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int) -> None:
    """A tracker of the Trainer's own kind, made by `report_to` and placed where TensorBoard and W&B are."""
    transformers = pytest.importorskip("transformers", reason="transformers is in the hf extra")
    pytest.importorskip("accelerate", reason="the Trainer needs accelerate, which no extra brings")
    from transformers.integrations import integration_utils

    seen: list[tuple[int, dict[str, Any]]] = []

    class Tracker(transformers.TrainerCallback):
        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **others: Any) -> None:
            seen.append((state.global_step, dict(logs)))

    monkeypatch.setitem(integration_utils.INTEGRATION_TO_CALLBACK, "tracker", Tracker)
    history = trained(tmp_path, [KappaCallback(words(), every=2)], "tracker", every)
    kappas = {step: logs["log_kappa/softmax"] for step, logs in seen if "log_kappa/softmax" in logs}
    assert list(kappas) == [0, 2, 4]
    assert kappas == {line["step"]: line["log_kappa/softmax"] for line in history if "log_kappa/softmax" in line}
    assert [step for step, logs in seen if "loss" in logs] == list(range(every, 5, every))  # no loss is swallowed


def test_tensorboard_plots_kappa(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is in the trackers extra")
    pytest.importorskip("accelerate", reason="the Trainer needs accelerate, which no extra brings")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "events"))
    trained(tmp_path, [KappaCallback(words(), every=2)], "tensorboard")
    events = EventAccumulator(str(tmp_path / "events"))
    events.Reload()
    (tag,) = [tag for tag in events.Tags()["scalars"] if tag.endswith("/log_kappa/softmax")]
    assert [event.step for event in events.Scalars(tag)] == [0, 2, 4]


def test_a_callback_without_a_trainer_says_so() -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is in the hf extra")
    callback = KappaCallback(words(), every=2)
    assert isinstance(callback, transformers.TrainerCallback)
    model, _, _ = make("transformers GPT-2")
    handler = transformers.trainer_callback.CallbackHandler(
        [transformers.DefaultFlowCallback(), callback], model, None, None, None
    )
    with pytest.raises(UserError, match="logs through the Trainer that calls it"):
        handler.on_train_begin(None, transformers.TrainerState(global_step=0), transformers.TrainerControl())


def test_lightning_logs_kappa_and_trains_the_same(tmp_path: Path) -> None:
    import lightning.pytorch as lightning
    from lightning.pytorch.loggers import CSVLogger

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.body = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
            self.losses: list[float] = []

        def forward(self, x: Tensor) -> Tensor:
            return self.body(x)

        def training_step(self, batch: Tensor, index: int) -> Tensor:
            loss = self(batch).square().mean()
            self.losses.append(loss.item())
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    def fit(callbacks: list[Any]) -> list[float]:
        module = Module()
        data = torch.utils.data.DataLoader(
            torch.randn(8, 6, 16, generator=torch.Generator().manual_seed(1)), batch_size=2
        )
        torch.manual_seed(0)
        trainer = lightning.Trainer(
            max_epochs=1,
            accelerator="cpu",
            logger=CSVLogger(tmp_path),
            callbacks=callbacks,
            enable_progress_bar=False,
            enable_checkpointing=False,
            log_every_n_steps=1,
        )
        trainer.fit(module, data)
        return module.losses

    callback = LightningKappaCallback(torch.randn(2, 6, 16), every=2)
    assert fit([]) == fit([callback])
    assert [reading.step for reading in callback.monitor.readings] == [0, 2, 4]
    logged = list(csv.DictReader(max(tmp_path.rglob("metrics.csv")).open()))
    kappas = {int(line["step"]): float(line["log_kappa/softmax"]) for line in logged if line["log_kappa/softmax"]}
    assert kappas == {reading.step: reading.scalars()["log_kappa/softmax"] for reading in callback.monitor.readings}


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "lightning.pytorch", None)
    with pytest.raises(UserError, match=r"manyheads\[lightning\]"):
        LightningKappaCallback(None, every=1)
