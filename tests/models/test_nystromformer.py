"""The Nyströmformer as a module: what it costs, how it starts and trains, and how it behaves in PyTorch's tools."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from manyheads.arch import zoo
from manyheads.arch.count import forward_flops, params
from manyheads.arch.families import nystromformer
from manyheads.arch.redesign import redesign
from manyheads.models.build import build, groups, materialise
from manyheads.models.twins import hf_maps
from manyheads.nn.attention import SoftmaxAttention
from manyheads.spec.arch import Arch, attentions
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Attention, Channel, Classify, Mlp, Norm, Nystrom, Pair, Residual, Softmax, Stage, Token
from manyheads.spec.recipe import Rates

from .statistics import same_statistics


def small(**changes: object) -> Arch:
    given = {"vocab": 11, "tokens": 40, "classes": 5, "landmarks": 8, "conv": 5} | changes
    return nystromformer(24, 2, 3, 8, 32, **given)


def post(width: int = 24, heads: int = 3, head_dim: int = 8, tokens: int = 40, conv: int = 5, vocab: int = 11) -> Arch:
    """transformers' form."""
    norm = Norm(eps=1e-5)
    attention = Attention(heads, head_dim, mix=Nystrom(8, conv=conv))
    layer = (Residual(attention, norm, "post"), Residual(Mlp(2 * width, "gelu_tanh"), norm, "post"))
    head = Classify(5, "class", None, hidden=width, act="gelu_tanh")
    return Arch("nystromformer", Token(vocab, tokens, types=2, norm=norm), (Stage(width, tokens, 2, (layer,)),), head)


SMALL = {
    "lra": small(),
    "plain": small(conv=0),
    "pair": small(pair=True),
    "softmax": small(softmax=True),
    "post": post(),
}
LEAN = {
    f"{name}_{policy}": redesign(arch, depth=1, heads=6, policy=policy, mlp_dim=20)
    for name, arch in SMALL.items()
    for policy in ("fixed", "split")
}
ZOO = [name for name in zoo.NAMES if name.startswith("nystromformer")]


def ids(arch: Arch, batch: int = 3, device: str = "cpu") -> Tensor:
    shape = (batch, 2, arch.stages[0].tokens) if isinstance(arch.head, Pair) else (batch, arch.stages[0].tokens)
    generator = None if device == "meta" else torch.Generator().manual_seed(5)
    return torch.randint(arch.embed.vocab, shape, generator=generator, device=device)


def padding(tokens: Tensor) -> Tensor:
    """Every sequence 7 tokens shorter than the one before it."""
    rows = torch.arange(tokens[..., 0].numel()).view(*tokens.shape[:-1], 1)
    return torch.arange(tokens.shape[-1]) < tokens.shape[-1] - 7 * (rows % 6)


# ------------------------------------------------------------------------------------------------------------- counts
def counted(arch: Arch) -> None:
    model = build(arch, device="meta").eval()
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
        model(ids(arch, 1, "meta"))
    assert counter.get_total_flops() == forward_flops(arch)


@pytest.mark.parametrize("name", ZOO)
def test_a_named_original_costs_what_is_counted(name: str) -> None:
    counted(zoo.get(name))


@pytest.mark.parametrize("name", ZOO)
@pytest.mark.parametrize("policy", ["fixed", "split"])
def test_a_redesign_costs_what_is_counted(name: str, policy: str) -> None:
    counted(redesign(zoo.get(name), depth=1, heads=4, policy=policy))


@pytest.mark.parametrize("arch", [*SMALL.values(), *LEAN.values()], ids=[*SMALL, *LEAN])
def test_any_dialect_costs_what_is_counted(arch: Arch) -> None:
    counted(arch)


@pytest.mark.parametrize("seed", range(8))
def test_any_shape_costs_what_is_counted(seed: int) -> None:
    draw = lambda low, high: int(torch.randint(low, high, (), generator=random))  # noqa: E731
    random = torch.Generator().manual_seed(seed)
    arch = nystromformer(
        draw(8, 99),
        draw(1, 4),
        draw(1, 9),
        draw(3, 40),
        draw(9, 99),
        vocab=draw(5, 50),
        tokens=draw(64, 300),
        classes=draw(2, 9),
        landmarks=draw(2, 65),
        conv=2 * draw(0, 9) + 1 if seed % 2 else 0,
        pair=seed % 4 == 3,
        softmax=seed == 6,
    )
    counted(arch)


# --------------------------------------------------------------------------------------------------------------- start
def test_starts_as_transformers_does() -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is in the dev extra")
    torch.manual_seed(100)
    arch = post(256, 4, 64, 400, 35, vocab=5000)
    config = transformers.NystromformerConfig(
        vocab_size=5000,
        hidden_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=512,
        max_position_embeddings=400,
        conv_kernel_size=35,
        num_labels=5,
    )
    theirs = transformers.NystromformerForSequenceClassification(config)
    same_statistics(build(arch, seed=0), theirs, hf_maps.nystromformer(arch))


def test_starts_as_the_lra_code_does() -> None:
    """Tables N(0, 0.02); linear maps, filters and norms as PyTorch makes them."""
    model = build(nystromformer(64, 1, 2, 32, 128, vocab=512, tokens=512, classes=10, conv=35), seed=0)
    for table in (model.embed.vocab.weight, model.embed.positions.weight):
        assert table.std().item() == pytest.approx(0.02, rel=0.03)
    attention, mlp = model.blocks[0].attention.op, model.blocks[0].mlp.op
    for part in (attention.qkv, attention.out, mlp.inp, mlp.out, model.head.hidden, model.head.out):
        for tensor in (part.weight, part.bias):
            assert 0.9 * part.in_features**-0.5 < tensor.abs().max() <= part.in_features**-0.5
    assert 0.9 * 35**-0.5 < attention.skip.abs().max() <= 35**-0.5


@pytest.mark.parametrize("arch", SMALL.values(), ids=SMALL)
def test_a_model_made_on_meta_is_the_same_once_materialised(arch: Arch) -> None:
    """Nothing is left as memory happened to be."""
    direct, late = build(arch, seed=4), build(arch, device="meta").to_empty(device="cpu")
    late.to_empty = lambda device: poison(late)
    materialise(late, "cpu", seed=4)
    for (name, a), b in zip(direct.named_parameters(), late.parameters(), strict=True):
        assert torch.equal(a, b), name


@torch.no_grad()
def poison(model: nn.Module) -> None:
    for tensor in (*model.parameters(), *model.buffers()):
        tensor.fill_(float("nan"))


# ------------------------------------------------------------------------------------------------------------ training
@pytest.mark.parametrize("arch", [*SMALL.values(), *LEAN.values()], ids=[*SMALL, *LEAN])
def test_a_training_step_moves_every_parameter(arch: Arch) -> None:
    model = build(arch, Rates(path=0.1, dropout=0.1), seed=0).train()
    before = {name: tensor.clone() for name, tensor in model.named_parameters()}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)
    torch.manual_seed(0)
    x = ids(arch, 8)
    extra = {"types": x % 2} if arch.embed.types else {}
    F.cross_entropy(model(x, padding(x), **extra), torch.arange(8) % 5).backward()
    optimizer.step()
    for name, tensor in model.named_parameters():
        assert tensor.grad is not None, name
        assert tensor.grad.isfinite().all(), name
        assert not torch.equal(tensor, before[name]), name


def test_a_pair_model_tells_its_two_documents_apart_and_reads_each_alone() -> None:
    arch = SMALL["pair"]
    model, x = build(arch, seed=0).double().eval(), ids(arch, 2)
    assert (model(x) - model(x.flip(1))).abs().max() > 1e-4
    a, b = (model.head.norm(model.features(x[:, i])).mean(dim=1) for i in (0, 1))
    assert torch.allclose(model(x), model.head(a, b), atol=1e-12)


def test_the_softmax_peer_shares_every_weight_but_the_filter() -> None:
    peer, ours = build(SMALL["softmax"]), build(SMALL["lra"])
    assert isinstance(peer.blocks[0].attention.op, SoftmaxAttention)
    assert ours.state_dict().keys() - peer.state_dict().keys() == {f"blocks.{i}.attention.op.skip" for i in (0, 1)}
    exact = replace(SMALL["plain"], stages=tuple(_landmarks(stage, 40) for stage in SMALL["plain"].stages))
    ours = build(exact).double().eval()
    ours.load_state_dict(peer.state_dict())
    x = ids(exact)
    assert torch.allclose(ours(x, padding(x)), peer.double().eval()(x, padding(x)), atol=1e-12)


def _landmarks(stage: Stage, landmarks: int) -> Stage:
    ((attention, mlp),) = stage.unit
    op = replace(attention.op, mix=Nystrom(landmarks))
    return replace(stage, unit=((replace(attention, op=op), mlp),))


# ------------------------------------------------------------------------------------------------------------ the tools
@pytest.mark.unchecked
@pytest.mark.parametrize(("name", "masked"), [("lra", False), ("lra", True), ("post", True)])
def test_compiles_as_one_graph_that_serves_every_step(name: str, masked: bool) -> None:
    arch = redesign(SMALL[name], depth=1)
    model, x = build(arch, seed=0), ids(arch)
    mask = padding(x) if masked else None
    fast = torch.compile(model, fullgraph=True, backend="aot_eager")
    fast(x, mask).sum().backward()
    with torch.compiler.set_stance("fail_on_recompile"):
        for step in (1, 2):
            now, seen = x.roll(step, 0), None if mask is None else mask.roll(step, 0)
            given = fast(now, seen)
            given.sum().backward()
            assert torch.allclose(given, model(now, seen), atol=1e-5)
    torch.compiler.reset()


@pytest.mark.unchecked
@pytest.mark.parametrize("arch", SMALL.values(), ids=SMALL)
def test_exports(arch: Arch) -> None:
    model, x = build(arch, seed=0).eval(), ids(arch)
    program = torch.export.export(model, (x, padding(x)))
    assert torch.allclose(program.module()(x, padding(x)), model(x, padding(x)), atol=1e-5)


@pytest.mark.parametrize("arch", SMALL.values(), ids=SMALL)
def test_activation_checkpointing_gives_the_same_gradients(arch: Arch) -> None:
    model, x = build(arch, seed=0), ids(arch)
    found = []
    for again in (False, True):
        for block in model.blocks:
            plain = type(block).forward.__get__(block)
            block.forward = (lambda *a, plain=plain: checkpoint(plain, *a, use_reentrant=False)) if again else plain
        model.zero_grad()
        model(x, padding(x)).sum().backward()
        found.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


# ------------------------------------------------------------------------------------------------------------ bad input
@pytest.mark.unchecked
def test_wrong_inputs_are_refused_with_their_numbers() -> None:
    model, pair = build(SMALL["lra"]), build(SMALL["pair"])
    with pytest.raises(UserError, match="41 tokens; this model has positions for 40"):
        model(torch.zeros(1, 41, dtype=torch.long))
    with pytest.raises(UserError, match="run from 0 to 11; this model's vocabulary is 0 to 10"):
        model(torch.arange(12)[None])
    with pytest.raises(UserError, match=r"boolean \(mask.bool\(\)\) and of shape \(2, 9\)"):
        model(torch.zeros(2, 9, dtype=torch.long), torch.ones(2, 9))
    with pytest.raises(UserError, match=r"shape \(3, 9\); this model compares two documents: batch x 2 x tokens"):
        pair(torch.zeros(3, 9, dtype=torch.long))
    with pytest.raises(UserError, match=r"\(3, 2, 9\) with a mask of \(3, 9\)"):
        pair(torch.zeros(3, 2, 9, dtype=torch.long), torch.ones(3, 9, dtype=torch.bool))


@pytest.mark.parametrize("mix", [Channel(), Softmax(causal=True)])
def test_another_way_of_mixing_is_refused(mix: Channel | Softmax) -> None:
    arch = SMALL["lra"]
    op = replace(attentions(arch.stages[0])[0], mix=mix)
    ((attention, mlp),) = arch.stages[0].unit
    stage = replace(arch.stages[0], unit=((replace(attention, op=op), mlp),))
    with pytest.raises(UserError, match="cannot mix tokens by"):
        build(replace(arch, stages=(stage,)))
