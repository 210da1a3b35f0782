"""Norms and activations, which layers, embeddings and heads have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Act = Literal["gelu", "gelu_tanh", "quick_gelu", "relu", "silu", "tanh"]


@dataclass(frozen=True)
class Norm:
    """A normalisation: `layer` and `batch` carry weight and bias, `rms` a weight, `unit` one scalar (x s / |x|)."""

    kind: Literal["layer", "rms", "batch", "unit"] = "layer"
    eps: float = 1e-6
