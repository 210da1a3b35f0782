"""kappa in the real trainers of other libraries, beside losses that do not move."""

from __future__ import annotations

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


def trained(folder: Path, callbacks: list[Any]) -> list[dict[str, Any]]:
    """The log of a real Trainer."""
    from transformers import Trainer, TrainingArguments

    model, _, _ = make("transformers GPT-2")
    arguments = TrainingArguments(
        str(folder),
        max_steps=4,
        per_device_train_batch_size=2,
        logging_steps=1,
        use_cpu=True,
        report_to=[],
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


def test_the_callback_is_one_of_the_trainers_own(monkeypatch: pytest.MonkeyPatch) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is in the hf extra")
    callback = KappaCallback(words(), every=2)
    assert isinstance(callback, transformers.TrainerCallback)
    model, _, _ = make("transformers GPT-2")
    state = transformers.TrainerState(global_step=0, epoch=0.0)
    control = transformers.TrainerControl()
    handler = transformers.trainer_callback.CallbackHandler([callback], model, None, None, None)
    arguments = None
    handler.on_train_begin(arguments, state, control)
    for state.global_step in (1, 2):
        handler.on_step_end(arguments, state, control)
    assert [line["step"] for line in state.log_history] == [0, 2]


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


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "lightning.pytorch", None)
    with pytest.raises(UserError, match=r"manyheads\[lightning\]"):
        LightningKappaCallback(None, every=1)
