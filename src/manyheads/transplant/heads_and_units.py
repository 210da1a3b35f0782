"""The heads and MLP units of one layer: more heads without a change, fewer of either, and zero ones to fill up.

Added heads leave the model's outputs as they are, cut ones leave what masking them leaves, and zero ones add nothing."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from manyheads.arch.layer_edits import attention_and_mlp, heads_of, mlp_of, with_cuts, with_more_heads
from manyheads.spec.parts import Attention, Layer

from .fold import plain_norm, reading, shared_norms
from .layer_weights import TrainedLayer, Weights

QKV, OUT = "attention.op.qkv", "attention.op.out"
FIRST, SECOND = "mlp.op.inp", "mlp.op.out"
STD = 0.02  # of drawn weights: what models of these families start from


def add_heads(layer: TrainedLayer, heads: int, of: TrainedLayer | None = None, seed: int = 0) -> TrainedLayer:
    """`layer` with `heads` more heads, which the output projection multiplies by zero. Their queries, keys and values are
    those of the layer `of`, from its first head on and from the first again where it has too few; without `of` they are
    drawn from `seed`."""
    record = with_more_heads(layer.record, heads, None if of is None else of.record)
    branch, _ = attention_and_mlp(layer.record)
    before, after = heads_of(branch), heads_of(record[0])
    weights = dict(layer.weights)
    if of is None:
        own = _projection(layer)
        new = _drawn(before, heads, own, seed)
    else:
        shared_norms((layer, of))
        own, theirs = _read(layer), _read(of)
        other = heads_of(attention_and_mlp(of.record)[0])
        new = [
            _repeated(rows, other.head_dim, count) for rows, count in zip(theirs, _heads(before, heads), strict=True)
        ]
        weights |= plain_norm(branch, "attention", weights)
    joined = [torch.cat(pair) for pair in zip(own, new, strict=True)]
    _set_projection(weights, after, joined)
    out = weights[f"{OUT}.weight"]
    weights[f"{OUT}.weight"] = torch.cat((out, out.new_zeros(out.shape[0], after.inner - before.inner)), dim=1)
    return TrainedLayer(record, weights)


def cut(layer: TrainedLayer, heads: Sequence[int] = (), units: Sequence[int] = ()) -> TrainedLayer:
    """`layer` without these heads and MLP units: what remains equals the layer in which they are masked."""
    record = with_cuts(layer.record, heads, units)
    attention, mlp = attention_and_mlp(layer.record)
    op, hidden = heads_of(attention), mlp_of(mlp)
    weights = dict(layer.weights)
    if heads:
        size = op.inner // op.kv_inner
        kept = _columns([head for head in range(op.heads) if head not in set(heads)], op.head_dim)
        groups = {head // size for head in heads}
        kept_kv = _columns([group for group in range(op.heads // size) if group not in groups], op.head_dim)
        rows = [part[at] for part, at in zip(_projection(layer), (kept, kept_kv, kept_kv), strict=True)]
        _set_projection(weights, heads_of(record[0]), rows)
        weights[f"{OUT}.weight"] = weights[f"{OUT}.weight"][:, kept].contiguous()
    if units:
        kept = torch.tensor([unit for unit in range(hidden.mlp_dim) if unit not in set(units)])
        for name in ("weight", "bias") if hidden.bias else ("weight",):
            halves = weights[f"{FIRST}.{name}"].chunk(2 if hidden.gated else 1)
            weights[f"{FIRST}.{name}"] = torch.cat([half[kept] for half in halves])
        weights[f"{SECOND}.weight"] = weights[f"{SECOND}.weight"][:, kept].contiguous()
    return TrainedLayer(record, weights)


def pad(layer: TrainedLayer, record: Layer) -> TrainedLayer:
    """`layer` filled up with zero heads and units to the sizes of `record`, which `arch.layer_edits.padded` gave."""
    (attention, mlp), (wide_attention, wide_mlp) = attention_and_mlp(layer.record), attention_and_mlp(record)
    before, after = heads_of(attention), heads_of(wide_attention)
    weights = dict(layer.weights)
    rows = [
        _filled(part, size)
        for part, size in zip(_projection(layer), (after.inner, after.kv_inner, after.kv_inner), strict=True)
    ]
    _set_projection(weights, after, rows)
    _fill_output(weights, OUT, after.inner, after.out_bias)
    small, large = mlp_of(mlp), mlp_of(wide_mlp)
    halves = weights[f"{FIRST}.weight"].chunk(2 if small.gated else 1)
    weights[f"{FIRST}.weight"] = torch.cat([_filled(half, large.mlp_dim) for half in halves])
    if large.bias:
        bias = weights.get(f"{FIRST}.bias", halves[0].new_zeros(len(halves) * small.mlp_dim))
        weights[f"{FIRST}.bias"] = torch.cat([_filled(half, large.mlp_dim) for half in bias.chunk(len(halves))])
    _fill_output(weights, SECOND, large.mlp_dim, large.bias)
    for name, own, wide in (("attention", attention, wide_attention), ("mlp", mlp, wide_mlp)):
        if own.scaled is None and wide.scaled is not None:
            weights[f"{name}.scale"] = torch.ones_like(weights[f"{name}.op.out.weight"][:, 0])
    assert before.head_dim == after.head_dim
    return TrainedLayer(record, weights)


def _projection(layer: TrainedLayer) -> list[Tensor]:
    """Queries, keys and values of a layer: each matrix with its bias as one more column, zero where there is none."""
    branch, _ = attention_and_mlp(layer.record)
    weight = layer.weights[f"{QKV}.weight"]
    bias = layer.weights.get(f"{QKV}.bias", weight.new_zeros(weight.shape[0]))
    return _three(heads_of(branch), weight, bias)


def _read(layer: TrainedLayer) -> list[Tensor]:
    """As `_projection`, after the norm's gain and bias have moved into the matrix."""
    branch, _ = attention_and_mlp(layer.record)
    return _three(heads_of(branch), *reading(branch, "attention", layer.weights, QKV))


def _three(op: Attention, weight: Tensor, bias: Tensor) -> list[Tensor]:
    both = torch.cat((weight, bias[:, None]), dim=1)
    return list(both.split((op.inner, op.kv_inner, op.kv_inner)))


def _set_projection(weights: Weights, op: Attention, parts: Sequence[Tensor]) -> None:
    both = torch.cat(list(parts))
    weights[f"{QKV}.weight"] = both[:, :-1].contiguous()
    if op.qkv_bias:
        weights[f"{QKV}.bias"] = both[:, -1].contiguous()


def _heads(op: Attention, heads: int) -> tuple[int, int, int]:
    """How many heads of queries, keys and values come with `heads` heads."""
    kv = heads * op.kv_inner // op.inner
    return heads, kv, kv


def _drawn(op: Attention, heads: int, own: Sequence[Tensor], seed: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    new = []
    for rows, count in zip(own, _heads(op, heads), strict=True):
        drawn = torch.randn(count * op.head_dim, rows.shape[1] - 1, generator=generator, dtype=torch.float64) * STD
        new.append(torch.cat((drawn, drawn.new_zeros(len(drawn), 1)), dim=1).to(rows))
    return new


def _repeated(rows: Tensor, head_dim: int, count: int) -> Tensor:
    """The first `count` heads of a matrix, from the first again where it has fewer."""
    have = rows.shape[0] // head_dim
    return rows[_columns([number % have for number in range(count)], head_dim)]


def _columns(heads: Sequence[int], head_dim: int) -> Tensor:
    """The rows or columns that belong to these heads."""
    return (torch.tensor(heads)[:, None] * head_dim + torch.arange(head_dim)).flatten()


def _filled(rows: Tensor, size: int) -> Tensor:
    """`rows` with rows of zero behind, up to `size`."""
    return torch.cat((rows, rows.new_zeros(size - rows.shape[0], *rows.shape[1:])))


def _fill_output(weights: Weights, name: str, size: int, biased: bool) -> None:
    out = weights[f"{name}.weight"]
    weights[f"{name}.weight"] = _filled(out.T, size).T.contiguous()
    if biased and f"{name}.bias" not in weights:
        weights[f"{name}.bias"] = out.new_zeros(out.shape[0])
