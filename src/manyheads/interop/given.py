"""A user's own images or text as a batch for a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from manyheads.spec.errors import UserError

from .extras import needed
from .load import Input

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".gif")


def images(folder: Path, taken: Input, batch: int) -> Any:
    """The first `batch` images of a folder by name, the shorter side resized, the centre cut out, normalised."""
    if not taken.size:
        raise UserError("this model does not take images; leave --images out")
    files = sorted(file for file in folder.rglob("*") if file.suffix.lower() in SUFFIXES)[:batch]
    if not files:
        raise UserError(f"{folder} holds no image; write a folder with {', '.join(SUFFIXES)} files")
    pillow, v2 = needed("PIL.Image", "vision"), needed("torchvision.transforms.v2", "vision")
    steps = [
        v2.ToImage(),
        v2.Resize(taken.size),
        v2.CenterCrop(taken.size),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize(taken.mean[: taken.channels], taken.std[: taken.channels]),
    ]
    mode = "L" if taken.channels == 1 else "RGB"
    try:
        pixels = [v2.Compose(steps)(pillow.open(file).convert(mode)) for file in files]
    except OSError as error:
        raise UserError(f"an image of {folder} cannot be read: {error}") from None
    return taken.wrap(torch.stack(pixels))


def text(file: Path, name: str, taken: Input, batch: int) -> Any:
    """A text file in `batch` sequences, one after the other, by the tokenizer in the model's own folder."""
    prefix, _, folder = name.partition(":")
    if not taken.vocab or prefix != "hf":
        raise UserError(
            f"--text needs the tokenizer of the model, and {name} has none; write hf:FOLDER with one inside"
        )
    transformers = needed("transformers", "hf")
    try:
        written = file.read_text(encoding="utf-8")
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError) as error:
        raise UserError(f"--text {file}: {str(error).splitlines()[0]}") from None
    ids = tokenizer(written, return_tensors="pt", add_special_tokens=False)["input_ids"][0]
    length = min(taken.tokens, len(ids))
    if length < 2:
        raise UserError(f"{file} gives {len(ids)} tokens; a sequence needs 2 or more")
    count = min(batch, len(ids) // length)
    return taken.wrap(ids[: count * length].view(count, length))
