"""Nyström attention: its formula, and each defect of the published code as a promise that it is not here."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from manyheads.arch.attention_cost import nystrom_mixing
from manyheads.arch.families import nystromformer
from manyheads.models.build import build
from manyheads.nn.attention import SoftmaxAttention
from manyheads.nn.nystrom import NystromAttention, means, nystrom, pseudo_inverse, segments
from manyheads.spec.parts import Attention, Norm, Nystrom, Softmax


def qkv(
    batch: int,
    heads: int,
    tokens: int,
    head_dim: int,
    *,
    sharp: float = 1.0,
    dtype: torch.dtype = torch.float64,
    seed: int = 0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys (their scores `sharp` squared times as large) and values."""
    generator = torch.Generator().manual_seed(seed)
    q, k, v = torch.randn(3, batch, heads, tokens, head_dim, generator=generator, dtype=torch.float64)
    return (sharp * q).to(dtype), (sharp * k).to(dtype), v.to(dtype)


def block(heads: int = 3, head_dim: int = 5, landmarks: int = 4, conv: int = 0, sharp: float = 1.0) -> NystromAttention:
    """An attention of width 12 in float64; `sharp` scales the weights of queries and keys."""
    torch.manual_seed(0)
    made = NystromAttention(12, Attention(heads, head_dim, mix=Nystrom(landmarks, conv=conv))).double()
    with torch.no_grad():
        made.qkv.weight[: 2 * heads * head_dim] *= sharp
    return made


def close(a: Tensor, b: Tensor, tolerance: float = 1e-11) -> bool:
    return bool((a - b).abs().max() <= tolerance * b.abs().max().clamp_min(1))


# ------------------------------------------------------------------------------------------------------------- formula
def plain(q: Tensor, k: Tensor, v: Tensor, landmarks: int, iterations: int) -> Tensor:
    """One sample and one head at a time, segment by segment, with every matrix spelt out."""
    out = torch.empty_like(v)
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            queries, keys, identity = q[b, h], k[b, h], torch.eye(landmarks, dtype=q.dtype)
            ends = [i.max() + 1 for i in torch.arange(q.shape[2]).tensor_split(landmarks)]
            starts = [0, *ends[:-1]]
            few_q = torch.stack([queries[a:e].mean(0) for a, e in zip(starts, ends, strict=True)])
            few_k = torch.stack([keys[a:e].mean(0) for a, e in zip(starts, ends, strict=True)])
            f1, f2, f3 = (
                (a @ c.T / q.shape[-1] ** 0.5).softmax(-1) for a, c in ((queries, few_k), (few_q, few_k), (few_q, keys))
            )
            z = f2.T / f2.sum(0).max()
            for _ in range(iterations):
                a = f2 @ z
                z = z @ (13 * identity - a @ (15 * identity - a @ (7 * identity - a))) / 4
            out[b, h] = f1 @ z @ f3 @ v[b, h]
    return out


@pytest.mark.parametrize("tokens", [24, 25, 31, 47])
@pytest.mark.parametrize("fused", [True, False])
def test_is_its_formula_at_any_length(tokens: int, fused: bool) -> None:
    q, k, v = qkv(2, 3, tokens, 5)
    assert close(nystrom(q, k, v, 8, 6, fused=fused), plain(q, k, v, 8, 6))


def test_the_block_adds_one_filter_per_head_and_scales_its_output() -> None:
    torch.manual_seed(0)
    spec = Attention(3, 5, qk_norm=Norm("rms"), out_scale=0.5, mix=Nystrom(4, conv=7))
    made = NystromAttention(12, spec).double()
    x = torch.randn(2, 22, 12, dtype=torch.float64)
    q, k, v = (t.unflatten(-1, (3, 5)) for t in (x @ made.qkv.weight.T + made.qkv.bias).split(15, dim=-1))
    q, k = (t / (t.square().mean(-1, keepdim=True) + 1e-6).sqrt() for t in (q, k))
    heads = plain(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), 4, 6).transpose(1, 2)
    padded = torch.nn.functional.pad(v, (0, 0, 0, 0, 3, 3))
    skip = sum(made.skip[:, tap, None] * padded[:, tap : tap + 22] for tap in range(7))
    expected = 0.5 * ((heads + skip).flatten(2) @ made.out.weight.T + made.out.bias)
    assert close(made(x), expected)


@pytest.mark.parametrize(("tokens", "landmarks"), [(9, 9), (5, 9)])
def test_is_softmax_attention_where_every_token_is_a_landmark(tokens: int, landmarks: int) -> None:
    made = block(landmarks=landmarks, sharp=3.0)
    exact = SoftmaxAttention(12, Attention(3, 5, mix=Softmax())).double()
    exact.load_state_dict(made.state_dict())
    x = torch.randn(2, tokens, 12, dtype=torch.float64)
    mask = torch.arange(tokens) < torch.tensor([[tokens], [3]])
    assert torch.equal(made(x), exact(x))
    assert close(made(x, mask), exact(x, mask[:, None, None]))


# ------------------------------------------------- a sample's output is its own (defects 2 and 3 of the published code)
@pytest.mark.parametrize("tokens", [48, 37])
def test_a_sample_gives_the_same_alone_and_in_a_batch(tokens: int) -> None:
    made, x = block(conv=5, sharp=8.0), torch.randn(4, tokens, 12, dtype=torch.float64)
    together = made(x)
    for i in range(4):
        assert close(together[i : i + 1], made(x[i : i + 1]), 1e-12)


@pytest.mark.parametrize("real", [1, 3, 4, 5, 19, 32])
@pytest.mark.parametrize("where", ["right", "left", "between"])
def test_padding_changes_nothing_whatever_its_length_and_place(real: int, where: str) -> None:
    """Outputs and gradients: 4 landmarks, fewer, as many and more real tokens than that, padded to 33 and to 60."""
    made = block(conv=0 if where == "between" else 5, sharp=4.0)  # a filter sees gaps between tokens, as it must
    x = torch.randn(1, real, 12, dtype=torch.float64, requires_grad=True)
    probe = torch.randn(1, real, 12, dtype=torch.float64)
    alone = made(x)
    [gradient] = torch.autograd.grad((alone * probe).sum(), x)
    for length in (33, 60):
        mixed = torch.randperm(length, generator=torch.Generator().manual_seed(1))
        at = {
            "right": torch.arange(real),
            "left": torch.arange(length - real, length),
            "between": mixed[:real].sort().values,
        }[where]
        noise = 9 * torch.randn(2, length, 12, dtype=torch.float64)
        batch = noise.index_copy(1, at, x.expand(2, -1, -1))
        mask = torch.zeros(2, length, dtype=torch.bool).index_fill(1, at, True)
        mask[1] = True  # a neighbour without padding
        padded = made(batch, mask)[:1, at]
        [padded_gradient] = torch.autograd.grad((padded * probe).sum(), x)
        assert close(padded, alone)
        assert close(padded_gradient, gradient)


@pytest.mark.parametrize("tokens", [8, 9, 23, 24, 100])
def test_segments_divide_the_real_tokens_as_evenly_as_they_can(tokens: int) -> None:
    mask = torch.rand(3, 160, generator=torch.Generator().manual_seed(0)).argsort(dim=1) < tokens
    where = segments(mask, 8)
    assert torch.equal(where >= 0, mask)
    for row, real in zip(where, mask, strict=True):
        sizes = row[real].bincount(minlength=8)
        assert sizes.sum() == tokens
        assert sizes.max() - sizes.min() <= 1
        assert torch.equal(row[real], row[real].sort().values)
        x = torch.randn(tokens, 2, dtype=torch.float64)
        by_hand = torch.stack([x[row[real] == i].mean(0) for i in range(8)])
        assert close(means(x, 8), by_hand)


def test_a_sequence_that_is_all_padding_stays_finite() -> None:
    made, x = block(conv=5), torch.randn(2, 33, 12, dtype=torch.float64, requires_grad=True)
    y = made(x, torch.arange(33) < torch.tensor([[33], [0]]))
    y.sum().backward()
    assert y.isfinite().all()
    assert x.grad.isfinite().all()


# ------------------------------------------------------------------------------- settings do what they say (4, 6 and 9)
@pytest.mark.parametrize("sharp", [1.0, 3.0])
def test_more_iterations_leave_a_smaller_residual(sharp: float) -> None:
    q, k, _ = qkv(2, 2, 64, 32, sharp=sharp)
    kernel = (q @ k.mT / 32**0.5).softmax(dim=-1)
    left = {}
    for iterations in (6, 12, 18):
        for dtype in (torch.float64, torch.float32):
            a = kernel.to(dtype)
            z = pseudo_inverse(a, iterations)
            left[iterations, dtype] = ((a @ z @ a - a).norm() / a.norm()).item()
    assert left[6, torch.float64] > 3 * left[12, torch.float64]
    assert left[12, torch.float64] < 2e-3
    assert left[18, torch.float32] < 1e-4  # float32 holds its ground where it has converged


def test_the_records_iterations_and_landmarks_are_used() -> None:
    x = torch.randn(2, 40, 12, dtype=torch.float64)
    base = block(landmarks=8)
    for mix in (Nystrom(8, 7), Nystrom(9, 6)):
        other = NystromAttention(12, Attention(3, 5, mix=mix)).double()
        other.load_state_dict(base.state_dict())
        assert (other(x) - base(x)).abs().max() > 1e-6


def test_heads_and_head_dim_need_not_divide_the_width() -> None:
    made = block(heads=5, head_dim=7)
    assert made.qkv.weight.shape == (105, 12)
    assert made.out.weight.shape == (12, 35)
    made(torch.randn(1, 20, 12, dtype=torch.float64)).sum().backward()
    assert (made.out.weight.grad.abs().sum(dim=0) > 0).all()  # no channel of any head is lost


# -------------------------------------------------------------------------------------- a model's reading (1, 5 and 7)
def model(**changes: int) -> torch.nn.Module:
    given = {"vocab": 11, "tokens": 40, "classes": 3, "landmarks": 8, "conv": 5} | changes
    return build(nystromformer(12, 2, 3, 5, 16, **given), seed=0).double().eval()


def test_token_0_is_an_ordinary_token() -> None:
    """A black pixel is a pixel: only a mask makes padding."""
    ids = torch.randint(0, 3, (2, 40), generator=torch.Generator().manual_seed(0))
    made = model()
    before = made(ids)
    assert close(made(ids, torch.ones_like(ids, dtype=torch.bool)), before)
    assert (made(ids, ids != 0) - before).abs().max() > 1e-4
    torch.nn.init.normal_(made.embed.vocab.weight[0])
    assert (made(ids) - before).abs().max() > 1e-4


@pytest.mark.parametrize("pair", [False, True])
def test_a_text_reads_the_same_however_far_it_is_padded(pair: bool) -> None:
    """Encoder and pooling: the mean is over real tokens, not over all rows."""
    made = model(pair=pair)
    shape = (1, 2, 23) if pair else (1, 23)
    text = torch.randint(0, 11, shape, generator=torch.Generator().manual_seed(0))
    for length in (24, 32, 40):
        padded = torch.nn.functional.pad(text, (0, length - 23), value=7)
        mask = (torch.arange(length) < 23).expand(padded.shape)
        assert close(made(padded, mask), made(text))


@pytest.mark.parametrize("tokens", [1, 7, 8, 9, 33, 40])
def test_any_length_up_to_the_positions_runs_and_samples_do_not_mix(tokens: int) -> None:
    made = model()
    ids = torch.randint(0, 11, (4, tokens), generator=torch.Generator().manual_seed(0))
    together = made(ids)
    changed = made(torch.cat((ids[:1], (ids[1:] + 1) % 11)))
    assert close(changed[:1], together[:1], 1e-12)


# --------------------------------------------------------------------------------------------------- cost and precision
class Largest(TorchDispatchMode):
    """The largest tensor that any operation gives."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: list[tuple[int, ...]] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.shapes += [tuple(t.shape) for t in tree_leaves(result) if isinstance(t, Tensor)]
        return result


@pytest.mark.parametrize("masked", [False, True])
def test_no_tensor_grows_with_the_square_of_the_tokens(masked: bool) -> None:
    """Nor, fused, with heads x tokens x landmarks: forward and backward over 2,000 tokens."""
    made = block(landmarks=16, conv=5).float()
    x = torch.randn(1, 2000, 12, requires_grad=True)
    mask = (torch.arange(2000) < 1900)[None] if masked else None
    with Largest() as seen:
        made(x, mask).sum().backward()
    assert not [s for s in seen.shapes if sorted(s)[-2:] == [2000, 2000]]
    assert not [s for s in seen.shapes if sorted(s)[-3:] == [3, 16, 2000] or (len(s) == 4 and s[-2:] == (2000, 16))]
    assert max(torch.Size(s).numel() for s in seen.shapes) <= 2000 * 3 * 15


@pytest.mark.parametrize(
    ("heads", "head_dim", "tokens", "landmarks", "iterations"),
    [(2, 32, 1024, 64, 6), (4, 16, 1000, 64, 9), (3, 8, 64, 64, 6), (1, 64, 130, 128, 1)],
)
def test_costs_what_is_counted(heads: int, head_dim: int, tokens: int, landmarks: int, iterations: int) -> None:
    q, k, v = torch.empty(3, 1, heads, tokens, head_dim, device="meta")
    with FlopCounterMode(display=False) as counter:
        nystrom(q, k, v, landmarks, iterations)
    mix = Nystrom(landmarks, iterations)
    assert counter.get_total_flops() == nystrom_mixing(Attention(heads, head_dim, mix=mix), mix, tokens)


def test_half_precision_inputs_are_computed_in_float32() -> None:
    half = qkv(2, 2, 100, 16, sharp=2.0, dtype=torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        under = nystrom(*half, 8, 6)
    assert under.dtype == torch.bfloat16
    assert torch.equal(under, nystrom(*(t.float() for t in half), 8, 6).bfloat16())


@pytest.mark.parametrize("masked", [False, True])
def test_gradients_are_finite_in_bf16_autocast_and_near_those_of_float32(masked: bool) -> None:
    made = model().float()
    ids = torch.randint(0, 11, (3, 40), generator=torch.Generator().manual_seed(0))
    mask = torch.arange(40) < torch.tensor([[40], [21], [5]]) if masked else None
    found = []
    for half in (True, False):
        made.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            loss = torch.nn.functional.cross_entropy(made(ids, mask).float(), torch.tensor([0, 1, 2]))
        loss.backward()
        found.append(torch.cat([p.grad.flatten() for p in made.parameters()]))
    assert found[0].isfinite().all()
    assert torch.nn.functional.cosine_similarity(*found, dim=0) > 0.99


def test_sharp_scores_stay_finite_in_float32() -> None:
    q, k, v = (t.requires_grad_() for t in qkv(2, 2, 256, 16, sharp=30.0, dtype=torch.float32))
    y = nystrom(q, k, v, 32, 12)
    y.sum().backward()
    assert y.isfinite().all()
    assert all(t.grad.isfinite().all() for t in (q, k, v))
