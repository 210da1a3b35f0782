"""Load what a command measures: a model on its device, inputs for it, and in words where both come from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from manyheads.spec.errors import UserError, first_line
from manyheads.spec.field_checks import between, whole

if TYPE_CHECKING:
    from manyheads.interop.load import Loaded


@dataclass(frozen=True)
class ModelAndInputs:
    """A module and its inputs; `weights` and `source` describe the weights and the inputs in words."""

    module: Any
    inputs: Any
    weights: str
    source: str


def load_with_inputs(
    model: str,
    *,
    images: Path | None,
    text: Path | None,
    batch: int,
    tokens: int | None,
    random: bool,
    seed: int,
    device: str,
    trust_remote_code: bool,
) -> ModelAndInputs:
    """Load `model`, and images, text or noise as its inputs."""
    if images is not None and text is not None:
        raise UserError("--images and --text were both given; write the one that the model takes")
    between("--seed", seed, 0, 2**63 - 1, whole=True)
    if tokens is not None:
        whole("--tokens", tokens)
    from manyheads.interop.load import image_batch, load, text_batch
    from manyheads.nn.device import pick_device

    where = pick_device(device)
    loaded = load(model, random=random, seed=seed, tokens=tokens, trust_remote_code=trust_remote_code)
    if images is not None:
        inputs, source = image_batch(images, loaded.input, batch), f"images of {images}"
    elif text is not None:
        inputs = text_batch(text, model, loaded.input, batch, trust_remote_code=trust_remote_code)
        source = f"text of {text}"
    else:
        inputs, source = _noise(loaded, batch, seed), "noise"
    module = loaded.module.to(where)
    weights = f"initial weights (seed {seed})" if loaded.initial else "trained weights"
    return ModelAndInputs(module, inputs, weights, source)


def _noise(loaded: Loaded, batch: int, seed: int) -> Any:
    try:
        return loaded.input.noise(batch, seed)
    except (RuntimeError, TypeError) as error:  # more numbers than fit in memory, or than PyTorch can count
        raise UserError(f"--batch {batch}: noise for it cannot be made ({first_line(error)}); write less") from None
