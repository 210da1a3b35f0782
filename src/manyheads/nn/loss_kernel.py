"""Triton kernel of the loss over a vocabulary: each row of logits is read from memory once and overwritten by its
gradient."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

IGNORED = tl.constexpr(-100)
LOG2E = tl.constexpr(1.4426950408889634)
COLUMNS, WARPS = 8192, 8  # 2.8 TB/s read and written on an H200; 4096 columns 2.7, 16384 2.2


@triton.jit
def _logits(row, columns, vocab, width, LAST: tl.constexpr):
    """A stretch of the row in powers of two. Only the LAST may reach beyond the vocabulary, and asks."""
    if LAST:
        x = tl.load(row + columns, mask=columns < width, other=float("-inf"))
        return tl.where(columns < vocab, x.to(tl.float32) * LOG2E, float("-inf"))
    return tl.load(row + columns).to(tl.float32) * LOG2E


@triton.jit
def _sum(x, top, total):
    """The largest logit so far and the sums of powers, which are corrected as a larger one turns up."""
    new = tl.maximum(top, tl.max(x, axis=0))
    safe = tl.where(new == float("-inf"), 0.0, new)  # nothing but impossible words so far
    return new, total * tl.exp2(top - safe) + tl.exp2(x - safe)


@triton.jit
def _row(logits, targets, share, losses, vocab, width, stride, WANTED: tl.constexpr, COLUMNS: tl.constexpr):
    at = tl.program_id(0).to(tl.int64)
    target = tl.load(targets + at)
    counts = target != IGNORED
    row = logits + at * stride
    columns = tl.arange(0, COLUMNS)
    last = (vocab - 1) // COLUMNS * COLUMNS
    top, total = _sum(_logits(row, last + columns, vocab, width, True), float("-inf"), tl.zeros((COLUMNS,), tl.float32))
    for start in range(0, last, COLUMNS):
        top, total = _sum(_logits(row, start + columns, vocab, width, False), top, total)
    lse = top + tl.log2(tl.sum(total, axis=0))
    chosen = tl.load(row + tl.where(counts, target, 0)).to(tl.float32)
    tl.store(losses + at, tl.where(counts, lse / LOG2E - chosen, 0.0))
    if WANTED:
        weight = tl.where(counts, tl.load(share), 0.0)
        for start in range(0, last, COLUMNS):
            chance = tl.exp2(_logits(row, start + columns, vocab, width, False) - lse)
            chance -= tl.where(start + columns == target, 1.0, 0.0)
            tl.store(row + start + columns, (chance * weight).to(logits.dtype.element_ty))
        chance = tl.exp2(_logits(row, last + columns, vocab, width, True) - lse)
        chance -= tl.where(last + columns == target, 1.0, 0.0)
        tl.store(row + last + columns, (chance * weight).to(logits.dtype.element_ty), mask=last + columns < width)


def rows_on_gpu(logits: Tensor, targets: Tensor, share: Tensor, grad: bool, vocab: int) -> Tensor:
    """Sum of the rows' losses times `share`; with `grad`, logits are overwritten by its gradient. Columns from
    `vocab` on only fill up a row: they do not count, and their gradient is 0."""
    losses = torch.empty(len(logits), device=logits.device, dtype=torch.float32)
    with torch.cuda.device_of(logits):
        _row[(len(logits),)](
            logits,
            targets.contiguous(),
            share,
            losses,
            vocab,
            logits.shape[1],
            logits.stride(0),
            grad,
            COLUMNS,
            num_warps=WARPS,
        )
    return losses.sum() * share
