"""Small arrays from the host to the device."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def upload(table: np.ndarray, device: torch.device) -> Tensor:
    """A host array on the device. On a GPU it travels through pinned memory, so that the host does not wait."""
    host = torch.from_numpy(np.ascontiguousarray(table))
    return host.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else host
