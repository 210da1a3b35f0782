"""A model as a folder: `arch.json` says what it is, `model.safetensors` holds its weights. Nothing is unpickled."""

from __future__ import annotations

import os
import re
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from manyheads.spec import serialise as record
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.files import open_file, unwritten, writing
from manyheads.spec.recipe import Rates

from .build import build, materialise
from .resize import resize

WEIGHTS, RECORD = "model.safetensors", "arch.json"


def save(model: nn.Module, folder: Path | str) -> None:
    """Write a built model's record and weights. Each file is replaced in one step, so that a save that is interrupted
    leaves the old file."""
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritten(folder, error) from error
    arch = model.arch
    assert isinstance(arch, Arch)
    state = {name: tensor.detach().contiguous() for name, tensor in model.state_dict().items()}
    with writing(folder / WEIGHTS) as partial:
        try:
            save_file(state, partial, metadata={"format": "pt"})
        except SafetensorError as error:
            raise _as_os_error(error) from error
    record.save(arch, folder / RECORD)


def _as_os_error(error: SafetensorError) -> OSError:
    """What safetensors says about a failed write, such as "... No space left on device (os error 28)"."""
    number = re.search(r"os error (\d+)", str(error))
    return OSError(str(error)) if number is None else OSError(int(number[1]), os.strerror(int(number[1])))


def load(
    folder: Path | str, *, device: torch.device | str = "cpu", rates: Rates = Rates(), image: int | None = None
) -> nn.Module:
    """Read a model that `save` wrote. With `image`, it is built for that image size, and positions are interpolated."""
    folder = Path(folder)
    arch = record.load(folder / RECORD)
    state = read_weights(folder / WEIGHTS)
    if image is not None:
        from manyheads.arch.redesign import at_image

        new = at_image(arch, image)
        state, arch = resize(state, arch, new), new
    model = materialise(build(arch, rates, device="meta"), device, seed=0)
    fill(model, state, str(folder / WEIGHTS))
    return model


def read_weights(path: Path | str) -> dict[str, Tensor]:
    """The tensors of a safetensors file. A missing, truncated or foreign file raises a `UserError`."""
    try:
        open_file(path).close()  # refuses a pipe, for which safetensors would wait
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no mapping)
    except FileNotFoundError:
        raise UserError(f"{path} does not exist") from None
    except (SafetensorError, OSError, ValueError) as error:
        raise UserError(f"{path} is damaged or no safetensors file: {error}") from None


def read_shapes(path: Path | str) -> dict[str, tuple[int, ...]]:
    """The shape of each tensor of a safetensors file, from the beginning of the file alone."""
    try:
        with safe_open(path, framework="pt") as file:
            return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118 (no mapping)
    except FileNotFoundError:
        raise UserError(f"{path} does not exist") from None
    except (SafetensorError, OSError, ValueError) as error:
        raise UserError(f"{path} is damaged or no safetensors file: {error}") from None


def fill(model: nn.Module, state: dict[str, Tensor], source: str) -> None:
    """Load `state` into `model`. If it is of another architecture, the error names tensors, with both shapes."""
    own = model.state_dict()
    missing, extra = sorted(own.keys() - state.keys()), sorted(state.keys() - own.keys())
    wrong = [
        f"{name} is {tuple(state[name].shape)} there and {tuple(own[name].shape)} here"
        for name in own
        if name in state and state[name].shape != own[name].shape
    ]
    if missing or extra or wrong:
        faults = [
            f"{len(names)} {word}: {', '.join(names[:3])}"
            for word, names in (("missing", missing), ("unknown", extra), ("of another shape", wrong))
            if names
        ]
        raise UserError(f"{source} holds the weights of another architecture ({'; '.join(faults)})")
    model.load_state_dict(state)
