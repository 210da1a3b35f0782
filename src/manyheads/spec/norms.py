"""Norms and activations, which layers, embeddings and heads have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Act = Literal["gelu", "gelu_tanh", "quick_gelu", "relu", "relu_squared", "silu", "tanh"]


@dataclass(frozen=True)
class Norm:
    """A normalisation: `layer` and `batch` carry weight and bias, `rms` a weight, `unit` one scalar (x s / |x|).

    `layer_no_bias` carries a weight alone, `layer_plain` nothing. `layer_plus_one` and `rms_plus_one` multiply by
    1 + weight, where `layer` and `rms` multiply by the weight."""

    kind: Literal["layer", "rms", "batch", "unit", "layer_no_bias", "layer_plain", "layer_plus_one", "rms_plus_one"] = (
        "layer"
    )
    eps: float = 1e-6
