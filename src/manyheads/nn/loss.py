"""Cross-entropy over a vocabulary, a block of rows at a time: logits in float32 never exist for all rows.

Logits of a block are computed in autocast's precision and overwritten by their own gradient in the same pass, so that
the loss needs memory for one block and reads it once. `benchmarks/` measures it.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from manyheads.spec.errors import UserError

from .inputs import readable

IGNORED = -100  # a target that does not count
BLOCK = {"cuda": 2**31, "cpu": 2**24}  # logits held at once; on an H200 a quarter of it costs 3 % of the loss's time


def vocabulary_loss(
    x: Float[Tensor, "... width"],
    table: Float[Tensor, "vocab width"],
    targets: Int[Tensor, ...],
    bias: Float[Tensor, " vocab"] | None = None,
    *,
    rows: int | None = None,
) -> Float[Tensor, ""]:
    """Mean over the targets that count of -log softmax(x table^T + bias)[target], in float32.

    Targets of -100 do not count. `rows` are taken at a time; by default as many as BLOCK allows."""
    check_targets(targets, x, len(table))
    kind = x.device.type
    dtype = (
        torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else torch.promote_types(x.dtype, table.dtype)
    )
    flat = x.flatten(0, -2)
    rows = rows or block_rows(len(flat), len(table), kind)
    with torch.autocast(kind, enabled=False):
        return _Loss.apply(flat.to(dtype), table, bias, targets.flatten(), dtype, rows)


def logits_loss(logits: Float[Tensor, "... vocab"], targets: Int[Tensor, ...]) -> Float[Tensor, ""]:
    """The same loss from logits that exist already."""
    check_targets(targets, logits, logits.shape[-1])
    wide = logits.flatten(0, -2).to(torch.promote_types(logits.dtype, torch.float32))
    total = F.cross_entropy(wide, targets.flatten().long(), ignore_index=IGNORED, reduction="sum")
    return total / (targets != IGNORED).sum().clamp_min(1)


def block_rows(rows: int, vocab: int, kind: str) -> int:
    """How many rows of logits exist at once: blocks are equal, and as few as BLOCK allows."""
    blocks = -(-rows * vocab // BLOCK.get(kind, BLOCK["cpu"])) or 1
    return -(-rows // blocks)


def check_targets(targets: Tensor, x: Tensor, vocab: int) -> None:
    """Refuse targets that do not match the rows of `x` one by one or, where they can be read, are outside the
    vocabulary."""
    if targets.shape != x.shape[:-1] or targets.dtype not in (torch.int64, torch.int32):
        raise UserError(
            f"targets are {targets.dtype} of shape {tuple(targets.shape)}; for these tokens, write whole "
            f"numbers of shape {tuple(x.shape[:-1])}"
        )
    if readable(targets) and targets.numel():
        low, high = (int(end) for end in targets.where(targets != IGNORED, 0).aminmax())
        if low < 0 or high >= vocab:
            raise UserError(
                f"targets run from {low} to {high}; this model's vocabulary is 0 to {vocab - 1}, and {IGNORED} "
                "is what does not count"
            )


class _Loss(torch.autograd.Function):
    """The gradient is computed in the forward pass, because the logits that it needs are gone afterwards."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, table: Tensor, bias: Tensor | None, targets: Tensor, dtype: torch.dtype, rows: int
    ) -> Tensor:
        grad = any(ctx.needs_input_grad[:3])
        short = None if bias is None else bias.to(dtype)
        loss, dx, dtable, dbias = _blocks(x, table.to(dtype), short, targets, rows, grad)
        if grad:
            ctx.save_for_backward(dx, dtable, dbias)
            ctx.dtypes = table.dtype, None if bias is None else bias.dtype
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dloss: Tensor) -> tuple[Tensor | None, ...]:
        dx, dtable, dbias = ctx.saved_tensors
        kinds = ctx.dtypes
        return (
            dx * dloss.to(dx.dtype),
            (dtable * dloss).to(kinds[0]),
            None if kinds[1] is None else (dbias * dloss).to(kinds[1]),
            None,
            None,
            None,
        )


def _fake(
    x: Tensor, table: Tensor, bias: Tensor | None, targets: Tensor, rows: int, grad: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    wide = torch.promote_types(x.dtype, torch.float32)
    if not grad:
        return x.new_empty((), dtype=wide), x.new_empty(0), x.new_empty(0, dtype=wide), x.new_empty(0, dtype=wide)
    grown = table.new_empty(len(table) if bias is not None else 0, dtype=wide)
    return x.new_empty((), dtype=wide), torch.empty_like(x), table.new_empty(table.shape, dtype=wide), grown


@torch.library.custom_op(
    "manyheads::vocabulary_loss",
    mutates_args=(),
    schema="(Tensor x, Tensor table, Tensor? bias, Tensor targets, SymInt rows, bool grad) -> "
    "(Tensor, Tensor, Tensor, Tensor)",
)
def _blocks(
    x: Tensor, table: Tensor, bias: Tensor | None, targets: Tensor, rows: int, grad: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Loss, and with `grad` the gradients of x (its precision), of table and bias (float32 sums over all blocks)."""
    vocab, extra = len(table), filling(len(table), x)
    if extra:  # rows of zeros: their logits are 0, and so are the gradients that the kernel gives them
        table = F.pad(table, (0, 0, 0, extra))
        bias = None if bias is None else F.pad(bias, (0, extra))
    loss, dx, dtable, dbias = _fake(x, table, bias, targets, rows, grad)
    loss.zero_()
    dbias.zero_()
    x = x.contiguous()
    share = 1.0 / (targets != IGNORED).sum().clamp_min(1).to(loss.dtype)
    for start in range(0, len(x), rows):
        part, aim = x[start : start + rows], targets[start : start + rows]
        logits = part @ table.T if bias is None else torch.addmm(bias, part, table.T)
        loss += _rows(logits, aim, share, grad, vocab)
        if grad:  # logits now hold their gradient
            torch.mm(logits, table, out=dx[start : start + rows])
            _accumulate(dtable, logits.T, part, first=start == 0)
            if bias is not None:
                dbias += logits.sum(dim=0, dtype=dbias.dtype)
        del logits  # before the next block is allocated
    return (loss, dx, dtable[:vocab], dbias[:vocab]) if extra else (loss, dx, dtable, dbias)


_blocks.register_fake(_fake)


def _accumulate(total: Tensor, a: Tensor, b: Tensor, *, first: bool) -> None:
    """total = a b, or total += a b, summed in the precision of `total`."""
    if a.dtype == total.dtype:
        torch.addmm(total, a, b, beta=0 if first else 1, out=total)
    elif a.device.type == "cuda":
        torch.addmm(total, a, b, out_dtype=total.dtype, beta=0 if first else 1, out=total)
    else:  # a CPU multiplies in one precision only
        product = a @ b
        total.copy_(product) if first else total.add_(product)


def filling(vocab: int, x: Tensor) -> int:
    """Columns to add to a vocabulary: a GPU multiplies matrices faster if every row begins at a multiple of 16 bytes,
    and with the 50,257 words of GPT-2 rows do not."""
    return -vocab % 64 if vocab % 8 and x.device.type == "cuda" and x.dtype != torch.float64 else 0


def _rows(logits: Tensor, targets: Tensor, share: Tensor, grad: bool, vocab: int) -> Tensor:
    """Sum of the rows' losses times `share`; with `grad`, logits are overwritten by its gradient."""
    if logits.device.type == "cuda" and logits.dtype != torch.float64:
        from .loss_kernel import rows_on_gpu

        return rows_on_gpu(logits, targets, share, grad, vocab)
    counts = targets != IGNORED
    aim = targets.where(counts, 0).long()[:, None]
    wide = logits.to(share.dtype)
    lse = wide.logsumexp(dim=1)
    losses = (lse - wide.gather(1, aim)[:, 0]) * counts
    if grad:
        weight = (counts * share)[:, None]
        chance = wide.sub_(lse[:, None]).exp_() if wide is not logits else (wide - lse[:, None]).exp_()
        chance.mul_(weight).scatter_add_(1, aim, -weight)
        logits.copy_(chance)
    return losses.sum() * share
