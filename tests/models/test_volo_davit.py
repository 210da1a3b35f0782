"""VOLO and DaViT start, drop paths, count and compile as promised, at the original heads and at redesigned ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, replace

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from manyheads.arch.count import forward_flops, params
from manyheads.arch.families import davit, volo
from manyheads.arch.redesign import Policy, redesign
from manyheads.models.build import build, groups, materialise
from manyheads.models.twins import timm_maps
from manyheads.nn.attention_variants import ChannelAttention, ClassAttentionBlock, WindowAttention
from manyheads.nn.residual import DropPath
from manyheads.spec.arch import Arch, class_attentions
from manyheads.spec.parts import Attention, Channel, ConvStem, Norm, Window
from manyheads.spec.recipe import Rates

from .statistics import same_statistics

VOLO_WIDTHS, VOLO_DEPTHS, VOLO_HEADS = (32, 64, 64, 64), (2, 1, 2, 1), (2, 4, 4, 4)
DAVIT_WIDTHS, DAVIT_DEPTHS, DAVIT_HEADS = (32, 48, 64, 96), (1, 1, 2, 1), (2, 3, 4, 6)


def tiny(family: str, image: int = 64) -> Arch:
    """A VOLO or DaViT that a CPU runs in milliseconds."""
    if family == "volo":
        return volo(
            VOLO_WIDTHS,
            VOLO_DEPTHS,
            VOLO_HEADS,
            (16,) * 4,
            tuple(3 * w for w in VOLO_WIDTHS),
            stem=16,
            image=image,
            classes=10,
        )
    return davit(
        DAVIT_WIDTHS, DAVIT_DEPTHS, DAVIT_HEADS, (16,) * 4, tuple(4 * w for w in DAVIT_WIDTHS), image=image, classes=10
    )


def lean(family: str, policy: Policy, image: int = 64) -> Arch:
    """Twice the heads in every stage, one layer each."""
    heads = VOLO_HEADS if family == "volo" else DAVIT_HEADS
    return redesign(tiny(family, image), depth=(1, 1, 1, 1), heads=[2 * h for h in heads], policy=policy)


def twin(family: str, path: float = 0.0) -> nn.Module:
    """timm's model of the same shape."""
    pytest.importorskip("timm", reason="timm is in the dev extra")
    from timm.models.davit import DaVit
    from timm.models.volo import VOLO

    if family == "volo":
        return VOLO(
            VOLO_DEPTHS,
            img_size=64,
            num_classes=10,
            stem_hidden_dim=16,
            embed_dims=VOLO_WIDTHS,
            num_heads=VOLO_HEADS,
            drop_path_rate=path,
        )
    return DaVit(
        depths=DAVIT_DEPTHS, embed_dims=DAVIT_WIDTHS, num_heads=DAVIT_HEADS, num_classes=10, drop_path_rate=path
    )


def images(arch: Arch, batch: int = 2) -> torch.Tensor:
    """The same noise at every call."""
    assert isinstance(arch.embed, ConvStem)
    size = (batch, arch.embed.channels, arch.embed.image, arch.embed.image)
    return torch.randn(size, generator=torch.Generator().manual_seed(5))


FAMILIES = pytest.mark.parametrize("family", ["volo", "davit"])
MAPS: dict[str, Callable[[Arch], list]] = {"volo": timm_maps.volo, "davit": timm_maps.davit}
ARCHS = [(f, make) for f in ("volo", "davit") for make in ("original", "fixed", "split")]


def made(family: str, make: str) -> Arch:
    """The original, or its lean redesign by one policy."""
    return tiny(family) if make == "original" else lean(family, make)  # type: ignore[arg-type]


@FAMILIES
def test_starts_as_timm_does(family: str) -> None:
    torch.manual_seed(0)
    theirs, arch = twin(family), tiny(family)
    same_statistics(build(arch, seed=1), theirs, MAPS[family](arch))
    same_statistics(materialise(build(arch, device="meta"), "cpu", seed=2), theirs, MAPS[family](arch))


@FAMILIES
def test_drop_path_rates_are_timms(family: str) -> None:
    theirs = {n: m.drop_prob for n, m in twin(family, 0.3).named_modules() if type(m).__name__ == "DropPath"}
    rates = [m.rate for m in build(tiny(family), Rates(path=0.3), device="meta").modules() if isinstance(m, DropPath)]
    assert [r for r in rates if r] == pytest.approx([r for r in theirs.values() if r])
    assert len(theirs) >= 6


@FAMILIES
def test_drop_path_acts_in_training_only(family: str) -> None:
    arch = tiny(family)
    model = build(arch, Rates(path=0.9), seed=0)
    plain = build(arch, seed=0)
    x = images(arch)
    assert torch.equal(model.eval()(x), plain.eval()(x))
    torch.manual_seed(0)
    assert not torch.equal(model.train()(x), plain.train()(x))


@pytest.mark.parametrize(("family", "make"), ARCHS)
def test_a_training_step_reaches_every_parameter(family: str, make: str) -> None:
    arch = made(family, make)
    model = build(arch, Rates(dropout=0.1, attention=0.1), seed=0).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    nn.functional.cross_entropy(model(images(arch)), torch.tensor([1, 2])).backward()
    dead = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert not dead, dead
    optimizer.step()
    stuck = [name for name, p in model.named_parameters() if torch.equal(p, before[name])]
    assert not stuck, stuck
    assert model(images(arch)).isfinite().all()


@pytest.mark.parametrize("policy", ["fixed", "split"])
def test_class_attention_stays_by_type(policy: Policy) -> None:
    original, other = tiny("volo"), lean("volo", policy)
    assert other.stages[-1] == original.stages[-1]
    (spec,) = class_attentions(original.stages[-1])
    blocks = [m for m in build(other, device="meta").modules() if isinstance(m, ClassAttentionBlock)]
    assert len(blocks) == original.stages[-1].depth
    assert all(block.spec == spec for block in blocks)


@pytest.mark.parametrize("image", [64, 72, 100])
@pytest.mark.parametrize(("family", "make"), ARCHS)
def test_counts_are_the_modules_own(family: str, make: str, image: int) -> None:
    """Group by group, on even and odd grids, in whole and padded windows."""
    arch = tiny(family, image) if make == "original" else lean(family, make, image)  # type: ignore[arg-type]
    model = build(arch, device="meta").eval()
    of, found = groups(model), Counter[str]()
    for name, p in model.named_parameters():
        found[of[name]] += p.numel()
    assert dict(found) == {group: n for group, n in asdict(params(arch)).items() if n}
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(images(arch, 1).to("meta"))
    assert counter.get_total_flops() == forward_flops(arch)


@FAMILIES
def test_materialised_equals_built(family: str) -> None:
    arch = tiny(family)
    built, later = build(arch, seed=3), materialise(build(arch, device="meta"), "cpu", seed=3)
    assert later.state_dict().keys() == built.state_dict().keys()
    assert all(torch.equal(t, later.state_dict()[name]) for name, t in built.state_dict().items())


@FAMILIES
def test_materialised_layer_scales_are_the_records(family: str) -> None:
    arch = tiny(family)
    stages = tuple(
        replace(s, unit=tuple(tuple(replace(b, scaled=0.25) for b in layer) for layer in s.unit)) for s in arch.stages
    )
    model = materialise(build(replace(arch, stages=stages), device="meta"), "cpu", seed=0)
    scales = [p for name, p in model.named_parameters() if name.endswith(".scale")]
    assert scales
    assert all((scale == 0.25).all() for scale in scales)
    model.eval()(images(arch)).sum().backward()
    assert all(scale.grad is not None for scale in scales)


@pytest.mark.unchecked
@FAMILIES
def test_compiles_as_one_graph_and_once(family: str) -> None:
    """Forward and backward, on odd grids and padded windows; a second step compiles nothing."""
    torch._dynamo.reset()
    arch = lean(family, "fixed", 72)
    model, x = build(arch, seed=0).eval(), images(arch)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    compiled(x).sum().backward()
    with torch._dynamo.config.patch(error_on_recompile=True):
        again = compiled(x.flip(0))
    torch.testing.assert_close(again, model(x.flip(0)))


@pytest.mark.unchecked
@FAMILIES
def test_exports(family: str) -> None:
    arch = tiny(family)
    model, x = build(arch, seed=0).eval(), images(arch)
    program = torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim("batch", min=1, max=64)},))
    more = images(arch, 3)
    torch.testing.assert_close(program.module()(more), model(more))


@FAMILIES
def test_runs_under_autocast(family: str) -> None:
    arch = tiny(family)
    model = build(arch, seed=0)
    exact = model.eval()(images(arch))
    # oneDNN on CPUs with AMX computes bfloat16 convolutions of stride 4 and 16 channels wrongly (pytorch issue 169688)
    with torch.autocast("cpu", torch.bfloat16), torch.backends.mkldnn.flags(enabled=False):
        rough = model(images(arch))
    assert rough.dtype == torch.bfloat16
    assert (rough.float() - exact).abs().max() <= 0.05 * exact.abs().max()
    rough.float().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("mix", [Window(3), Channel()])
def test_normed_queries_and_keys_have_no_size(mix: Window | Channel) -> None:
    """With q and k norms, larger query and key matrices change nothing; in half precision too it runs."""
    spec = Attention(2, 8, qkv_bias=False, qk_norm=Norm("rms", 1e-12), mix=mix)
    block = WindowAttention(12, spec, 25) if isinstance(mix, Window) else ChannelAttention(12, spec)
    x = torch.randn(2, 25, 12, generator=torch.Generator().manual_seed(0))
    before = block(x)
    with torch.no_grad():
        block.qkv.weight[: 2 * spec.inner] *= 3
    torch.testing.assert_close(block(x), before)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(block(x).float(), before, rtol=0.05, atol=0.05)


@FAMILIES
def test_materialising_the_map_changes_nothing(family: str) -> None:
    """The window attention's map, written out as the audits of memory need it."""
    arch = tiny(family)
    model = build(arch, seed=0).double().eval()
    x = images(arch).double()
    fused = model(x)
    switched = [part for part in model.modules() if hasattr(part, "fused")]
    assert switched
    for part in switched:
        part.fused = False  # type: ignore[assignment]
    torch.testing.assert_close(model(x), fused, rtol=1e-10, atol=1e-10)
