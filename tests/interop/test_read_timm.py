"""timm models become records by reading the module; what a record cannot say is refused by name."""

from __future__ import annotations

import pytest
import torch

from manyheads.arch import zoo
from manyheads.arch.count import params
from manyheads.arch.families import vit
from manyheads.interop.resolve import resolve
from manyheads.spec.arch import mlps
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Mlp
from tests.parity.test_counts import TIMM

timm = pytest.importorskip("timm", reason="timm is in the vision extra")


@pytest.mark.parametrize(
    "name", ["vit_b", "deit_b_distilled", "xcit_s12", "xcit_m24", "tnt_b", "tnt_s_legacy", "volo_d3", "davit_b"]
)
def test_the_zoos_originals_are_read_exactly(name: str) -> None:
    assert resolve(f"timm:{TIMM[name]}") == zoo.get(name)


@pytest.mark.parametrize(
    "name",
    ["vit_base_patch32_224", "vit_base_patch16_384", "deit3_small_patch16_224", "volo_d1_384", "xcit_tiny_12_p8_224"],
)
def test_other_sizes_have_timms_parameters(name: str) -> None:
    with torch.device("meta"):
        theirs = timm.create_model(name)
    assert params(resolve(f"timm:{name}")).total == sum(p.numel() for p in theirs.parameters())


def test_details_are_read_too() -> None:
    """Layer scale and positions without the class token (DeiT III); a backbone gets ImageNet's classes."""
    arch = resolve("timm:deit3_small_patch16_224")
    assert arch.embed.class_positions is False  # type: ignore[union-attr]
    assert {branch.scaled for branch in arch.stages[0].unit[0]} == {1e-6}  # type: ignore[union-attr]
    assert all(branch.op.act == "gelu" for branch in arch.stages[0].unit[0] if isinstance(branch.op, Mlp))  # type: ignore[union-attr]
    assert resolve("timm:vit_small_patch14_dinov2").head.classes == 1000  # type: ignore[union-attr]
    assert resolve("timm:vit_intern300m_patch14_448").head.norm is None  # type: ignore[union-attr]
    assert all(op.act == "gelu_tanh" for op in mlps(resolve("timm:vit_base_patch32_siglip_gap_256").stages[0]))


def test_attentions_side_by_side_are_one_with_all_their_heads() -> None:
    """Two attentions of 6 heads and two MLPs in each of 18 layers, with a norm and a layer scale each."""
    arch = resolve("timm:vit_small_patch16_18x2_224")
    assert arch == vit(384, 18, 12, 64, 2 * 1536)


@pytest.mark.parametrize("name", ["xcit_tiny_12_p8_224", "xcit_medium_24_p16_384", "xcit_small_24_p8_224"])
def test_xcits_layer_scales_start_where_timms_do(name: str) -> None:
    """The module does not keep the value, so that it is known by the depth: here of a model with one layer of each kind."""
    start = timm.create_model(name, depth=1, cls_attn_layers=1).blocks[0].gamma1.unique().item()
    for branch in resolve(f"timm:{name}").stages[0].unit[0]:
        assert branch.scaled == pytest.approx(start)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("test_vit3", "attention that pools its tokens for a classifier"),
        ("aimv2_large_patch14_224", "a norm of its patches before their positions"),
        ("swin_tiny_patch4_window7_224", "is a SwinTransformer"),
        ("xcit_nano_12_p16_224", "norms its class token alone"),
        ("vit_small_r26_s32_224", "a HybridEmbed in place of plain patches"),
        ("vit_base_patch16_rpn_224", "norms after its branches"),
        ("vit_base_patch16_xp_224", "attention and MLP that read the same norm"),
        ("beit3_base_patch16_224", "norms inside its attention"),
        ("vit_so400m_patch14_siglip_gap_384", "write 378 or 392"),
        ("vit_base_patch61_224", "did you mean"),
    ],
)
def test_what_a_record_cannot_say_is_named(name: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        resolve(f"timm:{name}")
