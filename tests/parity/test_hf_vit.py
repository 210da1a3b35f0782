"""ViT against transformers, weights both ways."""

from __future__ import annotations

import pytest
import torch

from manyheads.arch.families import vit
from manyheads.models.twins import hf_maps

from .harness import agree

transformers = pytest.importorskip("transformers", reason="transformers is in the dev extra")


@pytest.mark.parametrize(("name", "bias"), [("vit_hf", True), ("vit_hf_no_qkv_bias", False)])
def test_equals_transformers(name: str, bias: bool) -> None:
    """Outputs and gradients of transformers' model, in float64."""
    arch = vit(48, 2, 3, 16, 80, image=32, patch=8, classes=10, eps=1e-5, qkv_bias=bias)
    config = transformers.ViTConfig(
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=80,
        image_size=32,
        patch_size=8,
        num_labels=10,
        layer_norm_eps=1e-5,
        qkv_bias=bias,
    )
    images = torch.randn(2, 3, 32, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    agree(
        name,
        "transformers ViTForImageClassification",
        arch,
        transformers.ViTForImageClassification(config),
        hf_maps.vit(arch),
        lambda ours: ours(images),
        lambda twin: twin(images).logits,
    )
