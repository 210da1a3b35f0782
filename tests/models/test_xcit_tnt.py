"""XCiT and TNT as modules: how they start, train, take other heads, and behave in PyTorch's tools."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from manyheads.arch import zoo
from manyheads.arch.count import forward_flops, params
from manyheads.arch.families import tnt, xcit
from manyheads.arch.redesign import redesign
from manyheads.models.build import build, groups, materialise
from manyheads.models.twins import timm_maps
from manyheads.nn.attention_variants import ClassAttentionBlock, CrossCovarianceAttention
from manyheads.nn.convolution import ConvEmbed
from manyheads.nn.residual import DropPath
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Attention, ClassAttention, Conv, ConvStem, CrossCovariance, Norm
from manyheads.spec.recipe import Rates

from .statistics import same_statistics


def small_xcit() -> Arch:
    return xcit(48, 2, 3, 16, 96, image=32, patch=8, classes=5, scaled=0.1)


def small_tnt(legacy: bool = False) -> Arch:
    return tnt(
        48,
        2,
        3,
        16,
        96,
        pixel_width=8,
        pixel_heads=2,
        pixel_head_dim=4,
        pixel_mlp_dim=16,
        image=32,
        patch=8,
        stride=2,
        classes=5,
        legacy=legacy,
    )


SMALL = {"xcit": small_xcit(), "tnt": small_tnt(), "tnt_legacy": small_tnt(True)}
LEAN = {
    f"{name}_{policy}": redesign(arch, depth=1, heads=6, policy=policy, mlp_dim=48)
    for name, arch in SMALL.items()
    for policy in ("fixed", "split")
}
ZOO = [name for name in zoo.NAMES if name.startswith(("xcit", "tnt"))]


def images(arch: Arch, batch: int = 3, device: str = "cpu") -> Tensor:
    generator = None if device == "meta" else torch.Generator().manual_seed(5)
    size = arch.embed.image
    return torch.randn(batch, 3, size, size, generator=generator, device=device)


# ------------------------------------------------------------------------------------------------------------- counts
def counted(arch: Arch) -> None:
    model = build(arch, device="meta").eval()
    found, group = Counter(), groups(model)
    for name, tensor in model.named_parameters():
        found[group[name]] += tensor.numel()
    expected = params(arch)
    assert {name: found[name] for name in Counter(group.values())} == {
        name: getattr(expected, name) for name in Counter(group.values())
    }
    assert found.total() == expected.total
    with FlopCounterMode(display=False) as counter:
        model(images(arch, 1, "meta"))
    assert counter.get_total_flops() == forward_flops(arch)


@pytest.mark.parametrize("name", ZOO)
def test_a_named_original_costs_what_is_counted(name: str) -> None:
    counted(zoo.get(name))


@pytest.mark.parametrize(
    "arch",
    [
        *LEAN.values(),
        redesign(zoo.get("xcit_m24"), depth=9, heads=13, head_dim=40, mlp_dim=700),
        redesign(zoo.get("tnt_b_legacy"), depth=5, heads=17, head_dim=24, mlp_dim=333),
        xcit(100, 2, 3, 40, 77, image=96, patch=8, class_heads=5, class_head_dim=7, class_mlp_dim=31),
        tnt(96, 2, 3, 40, 77, pixel_width=20, pixel_head_dim=9, pixel_mlp_dim=50, image=60, patch=10),
    ],
)
def test_any_shape_costs_what_is_counted(arch: Arch) -> None:
    counted(arch)


# --------------------------------------------------------------------------------------------------------------- start
@pytest.mark.parametrize("seed", [0, 1])
def test_xcit_starts_as_timms(seed: int) -> None:
    timm = pytest.importorskip("timm", reason="timm is in the dev extra")
    torch.manual_seed(seed + 100)
    arch = xcit(384, 1, 8, 48, 1536, scaled=1e-5)
    theirs = timm.create_model("xcit_small_24_p16_224", depth=1)
    same_statistics(build(arch, seed=seed), theirs, timm_maps.xcit(arch))


@pytest.mark.parametrize("legacy", [False, True])
def test_tnt_starts_as_timms(legacy: bool) -> None:
    timm = pytest.importorskip("timm", reason="timm is in the dev extra")
    torch.manual_seed(100)
    arch = tnt(384, 1, 6, 64, 1536, pixel_width=24, pixel_head_dim=6, pixel_mlp_dim=96, legacy=legacy)
    theirs = timm.create_model("tnt_s_legacy_patch16_224" if legacy else "tnt_s_patch16_224", depth=1)
    same_statistics(build(arch, seed=0), theirs, timm_maps.tnt(arch))


@pytest.mark.parametrize("arch", SMALL.values(), ids=SMALL)
def test_a_model_made_on_meta_is_the_same_once_materialised(arch: Arch) -> None:
    """Also its tables, layer scales and running statistics: nothing is left as memory happened to be."""
    direct, late = build(arch, seed=4), build(arch, device="meta").to_empty(device="cpu")
    late.to_empty = lambda device: poison(late)
    materialise(late, "cpu", seed=4)
    for (name, a), (_, b) in zip(tensors(direct), tensors(late), strict=True):
        assert torch.equal(a, b), name


def tensors(model: nn.Module) -> list[tuple[str, Tensor]]:
    return [*model.named_parameters(), *model.named_buffers()]


@torch.no_grad()
def poison(model: nn.Module) -> None:
    for _, tensor in tensors(model):
        tensor.fill_(float("nan") if tensor.is_floating_point() else -7)


# ------------------------------------------------------------------------------------------------------------ training
def paths(module: nn.Module) -> list[float]:
    return [part.rate for part in module.modules() if isinstance(part, DropPath)]


def test_drop_path_rates_are_the_originals() -> None:
    """Constant in XCiT and none in its class layers; rising in TNT, the same for pixels and patches."""
    model = build(xcit(48, 3, 3, 16, 96, image=32, patch=8, classes=5), Rates(path=0.3))
    assert paths(model.blocks) == [0.3] * 9
    assert set(paths(model.class_blocks)) == {0.0}
    arch = redesign(SMALL["tnt"], depth=3)
    assert paths(build(arch, Rates(path=0.3)).blocks) == [0.0] * 4 + [0.15] * 4 + [0.3] * 4


@pytest.mark.parametrize("arch", SMALL.values(), ids=SMALL)
@pytest.mark.parametrize("kind", ["path", "dropout", "attention"])
def test_noise_is_for_training_alone(arch: Arch, kind: str) -> None:
    noisy, plain, x = build(arch, Rates(**{kind: 0.5}), seed=0).eval(), build(arch, seed=0).eval(), images(arch, 8)
    assert torch.equal(noisy(x), plain(x))
    assert torch.equal(plain.train()(x), plain(x))
    assert not torch.equal(noisy.train()(x), noisy(x))


@pytest.mark.parametrize("arch", [*SMALL.values(), *LEAN.values()], ids=[*SMALL, *LEAN])
def test_a_training_step_moves_every_parameter(arch: Arch) -> None:
    model = build(arch, Rates(path=0.1, dropout=0.1), seed=0).train()
    before = {name: tensor.clone() for name, tensor in model.named_parameters()}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)
    torch.manual_seed(0)
    F.cross_entropy(model(images(arch, 8)), torch.arange(8) % 5).backward()
    optimizer.step()
    for name, tensor in model.named_parameters():
        assert tensor.grad is not None, name
        assert tensor.grad.isfinite().all(), name
        assert not torch.equal(tensor, before[name]), name


@pytest.mark.parametrize("policy", ["fixed", "split"])
def test_redesigns_leave_class_and_pixel_attention_alone(policy: str) -> None:
    lean = build(LEAN[f"xcit_{policy}"])
    assert [block.attention.op.spec for block in lean.class_blocks] == [ClassAttention(3, 16)] * 2
    head_dim = {"fixed": 16, "split": 8}[policy]
    assert lean.blocks[0].attention.op.spec == Attention(6, head_dim, mix=CrossCovariance())
    block = build(LEAN[f"tnt_{policy}"]).blocks[0]
    assert block.pixel_attention.op.spec == Attention(2, 4, qkv_bias=False)
    assert block.attention.op.spec == Attention(6, head_dim, qkv_bias=False)


# ---------------------------------------------------------------------------------------- blocks, beside plain versions
def test_cross_covariance_is_its_formula_head_by_head() -> None:
    torch.manual_seed(0)
    block = CrossCovarianceAttention(20, Attention(3, 5, out_scale=0.5, mix=CrossCovariance())).double()
    nn.init.uniform_(block.temperature, 0.5, 2.0)
    x = torch.randn(2, 7, 20, dtype=torch.float64)
    x[0, :, 3] = 0
    q, k, v = (x @ block.qkv.weight.T + block.qkv.bias).split(15, dim=-1)
    heads = []
    for h in range(3):
        a, b, c = (t[..., 5 * h : 5 * h + 5] for t in (q, k, v))
        a, b = a / a.norm(dim=1, keepdim=True), b / b.norm(dim=1, keepdim=True)
        heads.append(c @ (block.temperature[h] * a.mT @ b).softmax(dim=-1).mT)
    expected = 0.5 * (torch.cat(heads, dim=-1) @ block.out.weight.T + block.out.bias)
    assert torch.allclose(block(x), expected, atol=1e-12)


def test_class_attention_is_its_formula_head_by_head() -> None:
    torch.manual_seed(0)
    block = ClassAttentionBlock(20, ClassAttention(3, 5)).double()
    x = torch.randn(2, 7, 20, dtype=torch.float64)
    q = x[:, :1] @ block.q.weight.T + block.q.bias
    k, v = (x @ block.kv.weight.T + block.kv.bias).split(15, dim=-1)
    heads = [
        ((q[..., s] @ k[..., s].mT) / 5**0.5).softmax(dim=-1) @ v[..., s]
        for s in (slice(0, 5), slice(5, 10), slice(10, 15))
    ]
    expected = torch.cat(heads, dim=-1) @ block.out.weight.T + block.out.bias
    assert torch.allclose(block(x), expected, atol=1e-12)
    block.fused = False
    assert torch.allclose(block(x), expected, atol=1e-12)


def test_a_channel_of_zeros_stays_finite() -> None:
    """Its norm is 0: it is divided by 1e-12 instead, forward and backward."""
    block = CrossCovarianceAttention(8, Attention(2, 4, qkv_bias=False, mix=CrossCovariance()))
    x = torch.zeros(1, 6, 8, requires_grad=True)
    block(x).sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("name", LEAN)
def test_the_output_projection_reads_the_concatenated_heads(name: str) -> None:
    """What kappa is measured on: tokens x inner, one row for the class token."""
    arch, seen = LEAN[name], {}
    model = build(arch, seed=0).eval()
    for at, part in model.named_modules():
        if isinstance(getattr(part, "spec", None), Attention | ClassAttention):
            part.out.register_forward_pre_hook(lambda _, x, at=at: seen.update({at: tuple(x[0].shape)}))
    model(images(arch, 2))
    inner = 96 if name.endswith("fixed") else 48
    if name.startswith("xcit"):
        assert seen == {
            "blocks.0.attention.op": (2, 16, inner),
            "class_blocks.0.attention.op": (2, 1, 48),
            "class_blocks.1.attention.op": (2, 1, 48),
        }
    else:
        assert seen == {"blocks.0.pixel_attention.op": (32, 16, 8), "blocks.0.attention.op": (2, 17, inner)}


def test_a_stem_can_norm_channels() -> None:
    """A layer norm works over the channels of each place (DaViT)."""
    torch.manual_seed(0)
    conv = Conv(6, 7, 4, Norm(eps=1e-5), bias=True)
    module = ConvEmbed(ConvStem(30, 3, (conv,))).double()
    x = torch.randn(2, 3, 30, 30, dtype=torch.float64)
    raw = F.conv2d(x, module.convs[0].conv.weight, module.convs[0].conv.bias, stride=4, padding=3)
    expected = F.layer_norm(raw.permute(0, 2, 3, 1), (6,)).reshape(2, 64, 6)
    assert torch.allclose(module(x), expected, atol=1e-12)


# ------------------------------------------------------------------------------------------------------ PyTorch's tools
@pytest.mark.unchecked
@pytest.mark.parametrize("name", ["xcit_fixed", "tnt_fixed"])
def test_compiles_as_one_graph_and_once(name: str) -> None:
    arch = LEAN[name]
    model = build(arch, Rates(path=0.1), seed=0).train()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    compiled(images(arch)).sum().backward()
    with torch.compiler.set_stance("fail_on_recompile"):
        for _ in range(2):
            model.zero_grad()
            compiled(images(arch)).sum().backward()
    model.eval()
    assert torch.allclose(compiled(images(arch)), model(images(arch)), atol=1e-5)
    torch.compiler.reset()


@pytest.mark.unchecked
@pytest.mark.parametrize("name", ["xcit_split", "tnt_split", "tnt_legacy_fixed"])
def test_exports_with_any_batch(name: str) -> None:
    arch = LEAN[name]
    model = build(arch, seed=0).eval()
    shapes = ({0: torch.export.Dim("batch", min=2)},)
    program = torch.export.export(model, (images(arch, 3),), dynamic_shapes=shapes).module()
    assert torch.allclose(program(images(arch, 5)), model(images(arch, 5)), atol=1e-5)


@pytest.mark.parametrize("arch", LEAN.values(), ids=LEAN)
def test_half_precision_is_close(arch: Arch) -> None:
    model = build(arch, seed=0).train()
    exact = model(images(arch)).detach()
    with torch.autocast("cpu", torch.bfloat16):
        rough = model(images(arch))
    rough.float().square().sum().backward()
    assert all(tensor.grad.isfinite().all() for tensor in model.parameters())
    assert (rough.float() - exact).abs().max() < 0.05 * exact.abs().max() + 0.01


@pytest.mark.parametrize("arch", SMALL.values(), ids=SMALL)
def test_a_wrong_image_is_refused_with_its_numbers(arch: Arch) -> None:
    with pytest.raises(UserError, match="images are 1x3x40x32; this model takes batch x 3 x 32 x 32"):
        build(arch)(torch.zeros(1, 3, 40, 32))


def test_a_legacy_tnt_that_cannot_be_cut_is_refused() -> None:
    with pytest.raises(UserError, match="patches of 10 after a stride of 4, which must divide the patch"):
        tnt(48, 1, 3, 16, 96, pixel_width=8, pixel_head_dim=2, pixel_mlp_dim=16, image=40, patch=10, legacy=True)
