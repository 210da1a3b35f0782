"""Softmax attention: one meaning, whatever kernel computes it; rotary positions are relative."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from manyheads.nn.flex_kernel import flex
from manyheads.nn.positions import Rotary, turn
from manyheads.nn.sdpa import attend, triangle
from manyheads.spec.parts import Rope, RopeLlama3


def qkv(heads: int, kv_heads: int, tokens: int, keys: int) -> tuple[Tensor, Tensor, Tensor]:
    """Random queries, keys and values."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(2, heads, tokens, 6), (2, kv_heads, keys, 6), (2, kv_heads, keys, 6)]
    q, k, v = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    return q, k, v


def by_hand(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    causal: bool,
    mask: Tensor | None,
    window: int = 99,
    scale: float = 6**-0.5,
    cap: float | None = None,
) -> Tensor:
    """One query of one head at a time, over the keys it may see."""
    out = torch.zeros_like(q)
    shared, before = q.shape[1] // k.shape[1], k.shape[2] - q.shape[2]
    for b, h, t in torch.cartesian_prod(*map(torch.arange, q.shape[:3])).tolist():
        seen = [
            j
            for j in range(k.shape[2])
            if (not causal or j <= t + before) and (mask is None or mask[b, 0, 0, j] or (causal and j == t + before))
            if j > t + before - window
        ]
        keys, values = k[b, h // shared, seen], v[b, h // shared, seen]
        scores = keys @ q[b, h, t] * scale
        out[b, h, t] = (scores if cap is None else cap * (scores / cap).tanh()).softmax(dim=0) @ values
    return out


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("tokens", [5, 3, 1])
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_every_kernel_gives_what_the_formula_gives(kv_heads: int, tokens: int, causal: bool, masked: bool) -> None:
    """Fewer queries than keys are the last ones (as with a cache of earlier keys); padding always sees itself."""
    q, k, v = qkv(4, kv_heads, tokens, 5)
    mask = torch.tensor([[True, True, True, False, True], [False, False, True, True, True]])[:, None, None]
    given = mask if masked else None
    expected = by_hand(q, k, v, causal, given)
    for fused in (True, False):
        got = attend(q, k, v, causal=causal, mask=given, fused=fused)
        torch.testing.assert_close(got, expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("tokens", [5, 3, 1])
@pytest.mark.parametrize(
    "mix", [{"window": 2}, {"window": 1, "cap": 0.7}, {"window": 5}, {"scale": 2.0, "cap": 0.7}], ids=str
)
def test_windows_scales_and_caps_are_what_the_formula_says(mix: dict, tokens: int, masked: bool) -> None:
    """For shared keys, behind a cache, with padding; by sdpa, with maps, by flex_attention, and by a mask of pairs that
    says what the triangle says."""
    q, k, v = qkv(4, 2, tokens, 5)
    mask = torch.tensor([[True, True, True, False, True], [False, False, True, True, True]])[:, None, None]
    given = mask if masked else None
    expected = by_hand(q, k, v, True, given, **mix)
    seen = triangle(tokens, 5, given, q.device).expand(2, 1, tokens, 5)
    added = torch.zeros(seen.shape, dtype=q.dtype).masked_fill(~seen, float("-inf"))
    maps: list[Tensor] = []
    for got in (
        attend(q, k, v, causal=True, mask=given, **mix),
        attend(q, k, v, causal=True, mask=given, fused=False, maps=maps, **mix),
        attend(q, k, v, mask=seen, **mix),
        attend(q, k, v, mask=added, **mix),
        flex(q, k, v, causal=True, mask=given, dropout=0.0, **mix),
        flex(q, k, v, causal=False, mask=seen, dropout=0.0, **mix),
    ):
        torch.testing.assert_close(got, expected, rtol=0, atol=1e-12)
    far = torch.arange(5) <= torch.arange(5 - tokens, 5)[:, None] - mix.get("window", 99)
    assert not maps[0][:, :, far].any()


def test_a_cache_with_more_room_than_tokens_has_its_window_where_its_tokens_are() -> None:
    q, k, v = qkv(4, 2, 2, 5)
    expected = by_hand(q, k, v, True, None, window=2)
    room = [torch.cat((part, torch.full((2, 2, 3, 6), 9.0, dtype=part.dtype)), dim=2) for part in (k, v)]
    seen = torch.arange(8) <= torch.tensor([[3], [4]])
    for got in (
        attend(q, *room, mask=seen, window=2, before=3),
        flex(q, *room, causal=False, mask=seen, dropout=0.0, window=2, before=3),
    ):
        torch.testing.assert_close(got, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("rope", [Rope(), RopeLlama3(500.0, 8.0, 1.0, 4.0, 64)])
def test_rotary_products_depend_on_the_distance_alone(rope: Rope | RopeLlama3) -> None:
    rotary = Rotary(rope, 8, 64).double()
    q, k = torch.randn(2, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    queries = turn(q.expand(1, 1, 64, 8), rotary(0, 64))[0, 0]
    keys = turn(k.expand(1, 1, 64, 8), rotary(0, 64))[0, 0]
    scores = queries @ keys.T
    for distance in range(-63, 64):
        line = scores.diagonal(distance)
        assert (line - line[0]).abs().max() < 1e-13
    assert len({round(scores[0, j].item(), 6) for j in range(64)}) > 60  # and they do depend on it


def test_a_share_of_the_channels_turns_and_the_others_stay() -> None:
    x = torch.randn(1, 1, 64, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    part = turn(x, Rotary(Rope(share=0.7), 12, 64).double()(0, 64))
    assert torch.equal(part[..., 8:], x[..., 8:])
    torch.testing.assert_close(part[..., :8], turn(x[..., :8], Rotary(Rope(), 8, 64).double()(0, 64)), rtol=0, atol=0)


def test_stretched_positions_are_those_of_a_slower_walk() -> None:
    slow, plain = Rotary(Rope(stretch=4.0), 8, 64).double(), Rotary(Rope(), 8, 64).double()
    torch.testing.assert_close(slow(0, 64)[::4], plain(0, 16), rtol=0, atol=1e-14)


def test_a_table_can_start_anywhere() -> None:
    rotary = Rotary(Rope(), 8, 64)
    assert torch.equal(rotary(40, 10), rotary(0, 64)[40:50])


@pytest.mark.gpu
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("tokens", [128, 1])
@pytest.mark.parametrize(("heads", "kv_heads", "head_dim"), [(4, 4, 64), (8, 2, 64), (3, 3, 42), (2, 2, 192)])
def test_half_precision_on_cuda_gives_what_double_gives(
    heads: int, kv_heads: int, head_dim: int, tokens: int, causal: bool, masked: bool
) -> None:
    """Whatever kernel is chosen there, forward and backward."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(2, heads, tokens, head_dim), (2, kv_heads, 128, head_dim), (2, kv_heads, 128, head_dim)]
    exact = [torch.randn(s, generator=generator, dtype=torch.float64).bfloat16().double() for s in shapes]
    half = [t.to("cuda", torch.bfloat16).requires_grad_() for t in exact]
    exact = [t.requires_grad_() for t in exact]
    mask = (torch.arange(128).expand(2, 128) < torch.tensor([[128], [90]]))[:, None, None] if masked else None
    expected = attend(*exact, causal=causal, mask=mask, fused=False)
    got = attend(*half, causal=causal, mask=None if mask is None else mask.cuda())
    torch.testing.assert_close(got.double().cpu(), expected, rtol=0.02, atol=0.02)
    expected.square().sum().backward()
    got.float().square().sum().backward()
    for mine, right in zip(half, exact, strict=True):
        bound = 0.03 * right.grad.abs().max()
        assert (mine.grad.double().cpu() - right.grad).abs().max() <= bound
