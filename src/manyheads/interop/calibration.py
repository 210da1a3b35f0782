"""Calibration batches: a little of a user's own text or images, on which a transplant measures what each step costs.

Text gives a loss by itself, the next token. Images give one where their folders are the model's classes; other images,
and models that predict something else, have none, and are judged by how far a step turns the residual stream."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Classify, Lm, Token

from .folder_tokenizer import has_tokenizer, read_tokenizer
from .load import ImageInput, image_batch, input_of

LONGEST = 512  # tokens of one calibration sequence
Loss = Callable[[nn.Module, Any], float]


@dataclass(frozen=True)
class Calibration:
    """Batches for a model: `batches` hold its arguments and, where there is a loss, the targets behind them. `words` says
    what they are."""

    batches: tuple[tuple[Tensor, ...], ...]
    loss: Loss | None
    words: str

    def call(self, model: nn.Module, batch: tuple[Tensor, ...]) -> Any:
        """Run the model on a batch."""
        return model(batch[0])


def next_token_loss(model: nn.Module, batch: tuple[Tensor, ...]) -> float:
    """The mean loss of the next token, in nats."""
    ids, targets = batch
    return float(model(ids, targets=targets))


def class_loss(model: nn.Module, batch: tuple[Tensor, ...]) -> float:
    """The mean loss of the class, in nats."""
    images, labels = batch
    return float(nn.functional.cross_entropy(model(images).float(), labels))


def calibration(arch: Arch, folder: Path, gguf: str | None, data: Path, amount: int, *, scored: bool) -> Calibration:
    """Batches from a text file (`amount` tokens of it) or from a folder of images (`amount` images). `folder` is the
    model's own, with its tokenizer. With `scored` off there is no loss."""
    if not data.exists():
        raise UserError(f"--data {data} does not exist; write a text file, or a folder of images")
    if isinstance(arch.embed, Token):
        return _text(arch, folder, gguf, data, amount, scored)
    kind = input_of(arch, None)
    if not isinstance(kind, ImageInput):
        raise UserError(f"a {arch.family} model reads neither text nor images; state the steps by --again FILE")
    return _images(arch, kind, data, amount, scored)


def _text(arch: Arch, folder: Path, gguf: str | None, data: Path, amount: int, scored: bool) -> Calibration:
    if not data.is_file():
        raise UserError(f"--data {data} is a folder; this model reads text: write a text file")
    if gguf is None and not has_tokenizer(folder):
        raise UserError(f"{folder} holds no tokenizer, with which --data {data} becomes tokens; put its files there")
    try:
        text = data.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--data {data} cannot be read as text: {error}") from None
    tokenizer: Any = read_tokenizer(folder, gguf)
    characters = 16 * amount + 1000  # far more than so many tokens need
    ids = torch.tensor(tokenizer(text[:characters], add_special_tokens=False)["input_ids"])
    assert isinstance(arch.embed, Token)
    if len(ids) and int(ids.max()) >= arch.embed.vocab:
        raise UserError(
            f"the tokenizer of {folder} gives ids up to {int(ids.max())}, and the model's vocabulary has "
            f"{arch.embed.vocab}; this is the tokenizer of another model"
        )
    length = min(LONGEST, arch.stages[0].tokens, amount, len(ids) - 1)
    if length < 2:
        raise UserError(f"--data {data} has {len(ids)} tokens, of which {amount} are wanted; two at least are needed")
    count = min(amount, len(ids) - 1) // length
    rows, after = ids[: count * length].view(count, length), ids[1 : count * length + 1].view(count, length)
    loss = next_token_loss if isinstance(arch.head, Lm) and scored else None
    parts = (rows, after) if isinstance(arch.head, Lm) else (rows,)
    batches = tuple(zip(*(part.split(1) for part in parts), strict=True))
    return Calibration(batches, loss, f"{count * length:,} tokens of {data.name}")


def _images(arch: Arch, kind: ImageInput, data: Path, amount: int, scored: bool) -> Calibration:
    if not data.is_dir():
        raise UserError(f"--data {data} is a file; this model reads images: write a folder of them")
    folders = sorted(place for place in data.iterdir() if place.is_dir())
    labelled = isinstance(arch.head, Classify) and len(folders) == arch.head.classes
    if not labelled or not scored:
        images = image_batch(data, kind, amount)
        if scored:
            known = arch.head.classes if isinstance(arch.head, Classify) else 0
            raise UserError(
                f"--data {data} has {len(folders)} folders and the model tells {known} classes apart, so that there is no "
                "loss; write a folder with one folder for each class, or --by-stream to judge without one"
            )
        return Calibration(_split(images), None, f"{len(images)} images of {data.name}")
    each = max(1, -(-amount // len(folders)))
    images = [image_batch(place, kind, each) for place in folders]
    labels = torch.cat([torch.full((len(some),), number) for number, some in enumerate(images)])
    joined = torch.cat(images)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))[:amount]
    return Calibration(_split(joined[order], labels[order]), class_loss, f"{len(order)} labelled images of {data.name}")


def _split(*parts: Tensor) -> tuple[tuple[Tensor, ...], ...]:
    return tuple(zip(*(part.split(32) for part in parts), strict=True))
