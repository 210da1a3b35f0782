"""Which device PyTorch works on, by its name."""

from __future__ import annotations

import os

import torch

from manyheads.spec.errors import UserError


def named_device(name: torch.device | str) -> torch.device:
    """The device of this name, whether or not it is here; a name that PyTorch does not know is refused."""
    try:
        return torch.device(name)
    except RuntimeError:
        raise UserError(f"device {str(name)[:40]!r} is not known to PyTorch; write cpu, cuda or cuda:1") from None


def pick_device(device: torch.device | str | None) -> torch.device:
    """The device asked for; None is the first GPU (under torchrun, this process's own), or the CPU where there is
    none."""
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    chosen = named_device(device)
    if chosen.type not in ("cpu", "cuda"):
        raise UserError(f"device {chosen} was asked for; manyheads runs on cpu and cuda")
    if chosen.type == "cuda":
        if not torch.cuda.is_available():
            raise UserError(f"device {chosen} was asked for, and PyTorch sees no GPU here; write device=cpu")
        if chosen.index is None:
            chosen = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        if (chosen.index or 0) >= torch.cuda.device_count():
            raise UserError(
                f"device {chosen} was asked for, and there are {torch.cuda.device_count()} GPUs here; start as "
                "many processes as GPUs"
            )
    return chosen
