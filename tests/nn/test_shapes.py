"""Annotations are checked while the tests of nn, models, parity and conditioning run."""

from __future__ import annotations

import os

import pytest
import torch

from manyheads.arch import families
from manyheads.models.build import build
from manyheads.models.twins.tensors import same
from manyheads.nn.attention import SoftmaxAttention
from manyheads.nn.positions import turn
from manyheads.spec.parts import Attention

pytest.importorskip("beartype", reason="annotations are checked where beartype is installed")
if os.environ.get("MANYHEADS_SHAPES") == "none":
    pytest.skip("MANYHEADS_SHAPES=none", allow_module_level=True)
from jaxtyping import TypeCheckError


def test_a_wrong_shape_is_refused() -> None:
    attention = SoftmaxAttention(8, Attention(2, 4))
    assert attention(torch.randn(1, 3, 8)).shape == (1, 3, 8)
    with pytest.raises(TypeCheckError, match="batch tokens width"):
        attention(torch.randn(1, 1, 3, 8))
    with pytest.raises(TypeCheckError, match="tokens 2 turned"):
        turn(torch.randn(1, 2, 3, 4), torch.randn(5, 2, 4))


def test_a_wrong_type_is_refused() -> None:
    with pytest.raises(TypeCheckError):
        same("ours", 3)
    with pytest.raises(TypeCheckError):
        build(families.vit)


@pytest.mark.unchecked
def test_a_test_can_hand_over_what_the_annotations_forbid() -> None:
    assert turn(torch.randn(1, 2, 1, 4), torch.randn(3, 2, 4)).shape == (1, 2, 3, 4)
