"""The encoder of the rank experiments, beside PyTorch's own layers put together as the original does."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from manyheads.arch import zoo
from manyheads.arch.count import forward_flops, params
from manyheads.arch.families import nearest_neighbor
from manyheads.arch.redesign import redesign
from manyheads.models.build import build, groups, materialise
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError


class Unit(nn.Module):
    """x s / |x|."""

    def __init__(self) -> None:
        super().__init__()
        self.s = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        return self.s * x / torch.linalg.vector_norm(x, dim=-1, keepdim=True)


class Averaged(nn.Module):
    """The mean of several independent nn.MultiheadAttention modules."""

    batch_first = True
    _qkv_same_embed_dim = False  # PyTorch's layer asks, and takes no shortcut around this module

    def __init__(self, width: int, heads: int, copies: int) -> None:
        super().__init__()
        self.each = nn.ModuleList(nn.MultiheadAttention(width, heads, batch_first=True) for _ in range(copies))

    def forward(self, q: Tensor, k: Tensor, v: Tensor, **kwargs: object) -> tuple[Tensor, None]:
        return torch.stack([part(q, k, v, need_weights=False)[0] for part in self.each]).mean(dim=0), None


def original(width: int, depth: int, heads: int, copies: int, mlp_dim: int) -> nn.TransformerEncoder:
    """As the rank paper makes it: PyTorch's encoder layer with its norms and its attention exchanged."""
    layer = nn.TransformerEncoderLayer(width, 1, mlp_dim, dropout=0.0, activation="relu", batch_first=True)
    layer.norm1, layer.norm2, layer.self_attn = Unit(), Unit(), Averaged(width, heads, copies)
    return nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)


@torch.no_grad()
def load(ours: nn.Module, theirs: nn.TransformerEncoder) -> None:
    """The original's weights here: heads side by side, whichever module they came from."""
    for block, layer in zip(ours.blocks, theirs.layers, strict=True):
        each = layer.self_attn.each
        qkv = torch.stack([part.in_proj_weight.unflatten(0, (3, -1)) for part in each], dim=1)
        bias = torch.stack([part.in_proj_bias.unflatten(0, (3, -1)) for part in each], dim=1)
        block.attention.op.qkv.weight.copy_(qkv.flatten(0, 2))
        block.attention.op.qkv.bias.copy_(bias.flatten())
        block.attention.op.out.weight.copy_(torch.cat([part.out_proj.weight for part in each], dim=1))
        block.attention.op.out.bias.copy_(sum(part.out_proj.bias for part in each))
        block.attention.norm.scale.copy_(layer.norm1.s[0])
        block.mlp.op.inp.load_state_dict(layer.linear1.state_dict())
        block.mlp.op.out.load_state_dict(layer.linear2.state_dict())
        block.mlp.norm.scale.copy_(layer.norm2.s[0])


@pytest.mark.parametrize(("heads", "copies"), [(1, 1), (4, 1), (2, 3), (8, 5)])
def test_equals_pytorchs_layer_with_unit_norm_and_averaged_attentions(heads: int, copies: int) -> None:
    torch.manual_seed(heads)
    theirs = original(16, 2, heads, copies, 40).double()
    for tensor in theirs.parameters():
        nn.init.normal_(tensor, 1.0 if tensor.ndim == 1 else 0.0, 0.3)
    ours = build(nearest_neighbor(16, 2, heads * copies, 16 // heads, 40, tokens=7)).double()
    load(ours, theirs)
    points = torch.randn(3, 7, 16, dtype=torch.float64)
    inputs = [points.clone().requires_grad_() for _ in (ours, theirs)]
    probe = torch.randn_like(points)
    outputs = [model(x) for model, x in zip((ours, theirs), inputs, strict=True)]
    grads = [torch.autograd.grad((y * probe).sum(), x)[0] for y, x in zip(outputs, inputs, strict=True)]
    assert (outputs[0] - outputs[1]).abs().max() < 1e-12
    assert (grads[0] - grads[1]).abs().max() < 1e-12


@pytest.mark.parametrize("positions", ["concat", "add"])
def test_positions_join_the_points_as_they_are_called(positions: str) -> None:
    arch = nearest_neighbor(6, 1, 2, 5, 9, tokens=4, positions=positions, position_dim=3)
    model = build(arch, seed=0).double()
    points, places = torch.randn(2, 4, 6, dtype=torch.float64), model.embed.positions
    expected = torch.cat((points, places.expand(2, -1, -1)), dim=-1) if positions == "concat" else points + places
    assert torch.equal(model.embed(points), expected)
    assert model(points).shape == (2, 4, 6)
    assert torch.equal(model(points), model.features(points)[..., :6])


def test_without_positions_the_order_of_the_points_is_nothing() -> None:
    model, points = build(nearest_neighbor(6, 2, 2, 5, 9, tokens=4), seed=0).double(), torch.randn(2, 4, 6).double()
    order = torch.tensor([2, 0, 3, 1])
    assert torch.allclose(model(points[:, order]), model(points)[:, order], atol=1e-12)


# --------------------------------------------------------------------------------------------------------------- start
@pytest.mark.parametrize("copies", [1, 8])
def test_starts_as_pytorchs_layer_does(copies: int) -> None:
    """By the bounds and spreads of a fresh original, which do not depend on how many heads or copies there are."""
    torch.manual_seed(0)
    theirs = original(64, 3, 4, copies, 256)
    ours, loaded = (build(nearest_neighbor(64, 3, 4 * copies, 16, 256), seed=0) for _ in range(2))
    load(loaded, theirs)
    for (name, a), b in zip(ours.named_parameters(), loaded.parameters(), strict=True):
        if b.std(correction=0) == 0:
            assert torch.equal(a, b), name
        else:
            assert a.std().item() == pytest.approx(b.std().item(), rel=0.15 if a.ndim == 1 else 0.03), name
            assert a.abs().max().item() == pytest.approx(b.abs().max().item(), rel=0.1 if a.ndim == 1 else 0.01), name
    states = [block.state_dict() for block in ours.blocks]
    assert all(torch.equal(states[0][name], other[name]) for other in states for name in states[0])


def test_positions_start_as_the_original_draws_them() -> None:
    concat = build(nearest_neighbor(64, tokens=256, heads=2, positions="concat"), seed=0).embed.positions
    added = build(nearest_neighbor(64, tokens=256, positions="add"), seed=0).embed.positions
    assert -1 <= concat.min() < -0.99 < 0.99 < concat.max() <= 1
    assert added.mean().item() == pytest.approx(-1, abs=0.05)
    assert added.std().item() == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("positions", ["none", "concat", "add"])
def test_a_model_made_on_meta_is_the_same_once_materialised(positions: str) -> None:
    arch = nearest_neighbor(8, 2, 4, 4, 16, tokens=5, positions=positions, position_dim=8)
    direct, late = build(arch, seed=4), build(arch, device="meta").to_empty(device="cpu")
    late.to_empty = lambda device: [nn.init.constant_(p, float("nan")) for p in late.parameters()]
    materialise(late, "cpu", seed=4)
    for (name, a), b in zip(direct.named_parameters(), late.parameters(), strict=True):
        assert torch.equal(a, b), name


# ------------------------------------------------------------------------------------------------------- cost and tools
@pytest.mark.parametrize(
    "arch",
    [
        zoo.get("nearest_neighbor"),
        redesign(zoo.get("nearest_neighbor"), depth=3, heads=16, policy="split"),
        redesign(zoo.get("nearest_neighbor"), depth=2, heads=8, policy="fixed", mlp_dim=100),
        nearest_neighbor(64, 3, 64 * 8, 1, 2048, tokens=256, positions="concat"),
        nearest_neighbor(17, 1, 3, 5, 11, tokens=9, positions="add"),
    ],
)
def test_costs_what_is_counted(arch: Arch) -> None:
    model = build(arch, device="meta")
    found, group = Counter(), groups(model)
    for name, tensor in model.named_parameters():
        found[group[name]] += tensor.numel()
    expected = params(arch)
    assert found == Counter(
        {
            name: n
            for name in ("embedding", "attention", "mlp", "norm", "local", "head")
            if (n := getattr(expected, name))
        }
    )
    with FlopCounterMode(display=False) as counter:
        model(torch.empty(1, arch.stages[0].tokens, arch.embed.dim, device="meta"))
    assert counter.get_total_flops() == forward_flops(arch)


@pytest.mark.unchecked
def test_learns_compiles_and_exports() -> None:
    """One graph for all steps; half precision; the loss falls."""
    model = build(nearest_neighbor(8, 1, 2, 8, 64, tokens=6, positions="concat", position_dim=8), seed=0)
    generator = torch.Generator().manual_seed(0)
    points = F.normalize(torch.randn(64, 6, 8, generator=generator), dim=-1)
    seen = points @ points.mT - 9 * torch.eye(6)
    target = points.take_along_dim(seen.argmax(dim=-1, keepdim=True), dim=1)
    program = torch.export.export(model, (points,))
    assert torch.allclose(program.module()(points), model(points), atol=1e-6)
    step = torch.compile(model, fullgraph=True, backend="aot_eager")
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(60):
        with torch.autocast("cpu", torch.bfloat16):
            loss = (step(points).float() - target).square().sum(-1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    torch.compiler.reset()
    assert losses[-1] < 0.7 * losses[0]


def test_wrong_points_are_refused_with_their_numbers() -> None:
    with pytest.raises(UserError, match=r"shape \(2, 5, 7\); this model takes batch x any number of points x 8 coord"):
        build(nearest_neighbor(8, head_dim=8))(torch.zeros(2, 5, 7))
    with pytest.raises(UserError, match="batch x 4 points x 8 coordinates"):
        build(nearest_neighbor(8, head_dim=8, tokens=4, positions="add"))(torch.zeros(2, 5, 8))


def test_where_the_last_scale_is_zero_nothing_but_it_has_a_gradient() -> None:
    """The trap of `rank_rate`: an output of zeros has half the loss of a unit vector that knows nothing."""
    model = build(nearest_neighbor(16, 3, 2, 8, 32, tokens=8), seed=0)
    points, answers = (F.normalize(torch.randn(64, 8, 16), dim=-1) for _ in range(2))
    scales = [part for name, part in model.named_parameters() if name.endswith("scale")]

    def loss() -> Tensor:
        return (model(points) - answers).square().sum(-1).mean()

    assert float(loss().detach()) == pytest.approx(2, abs=0.15)
    with torch.no_grad():
        scales[-1].zero_()
    loss().backward()
    assert float(loss().detach()) == pytest.approx(1, abs=1e-5)
    moved = [name for name, part in model.named_parameters() if part.grad is not None and bool(part.grad.any())]
    assert moved == [name for name, part in model.named_parameters() if part is scales[-1]]
