"""Nyström attention (2102.03902): softmax attention through a few landmarks, at a cost linear in tokens.

    softmax(q k^T) v  ~  F1 (Z (F3 v)),   F1 = softmax(q k~^T),   F2 = softmax(q~ k~^T),   F3 = softmax(q~ k^T)

q~ and k~ are the means of `landmarks` segments of consecutive tokens and Z is an iterated pseudo-inverse of F2. What a
sample gives depends on its own real tokens alone: Z starts from each matrix's own norm, and segments divide the real
tokens, wherever the padding ends.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from manyheads.spec.parts import Attention, Nystrom
from manyheads.spec.recipe import Rates

from .attention import QkvAttention
from .launch import FARTHEST, kernels_run, tile
from .sdpa import attend

LARGEST = 4096  # numbers of a tile, landmarks x head_dim: beyond, a kernel runs out of shared memory
INVERTED = 64  # landmarks: beyond, the inverse's kernel runs out of registers


def nystrom(
    q: Float[Tensor, "batch heads tokens head_dim"],
    k: Float[Tensor, "batch heads tokens head_dim"],
    v: Float[Tensor, "batch heads tokens head_dim"],
    landmarks: int,
    iterations: int,
    mask: Bool[Tensor, "batch tokens"] | None = None,
    *,
    fused: bool = True,
) -> Float[Tensor, "batch heads tokens head_dim"]:
    """F1 (Z (F3 v)), and softmax attention itself where a sample has no more real tokens than landmarks.

    `mask` is True at real tokens; rows of the others are finite and mean nothing. Products associate to the right, so
    that F3 and F1 are each one attention: landmarks ask all tokens, then all tokens ask the landmarks. No N x N tensor
    exists and, but for the backend "products" and the means of masked tokens, no N x landmarks one. At least float32
    throughout: Z enlarges what half precision rounds away. `fused=False` materialises all maps."""
    # a sequence of nothing but padding counts as real: any finite answer will do, NaN would spread through gradients
    seen = None if mask is None else mask | ~mask.any(dim=1, keepdim=True)
    keys = None if seen is None else seen[:, None, None]
    if q.shape[2] <= landmarks:
        return attend(q, k, v, mask=keys, fused=fused)
    how = backend(q, landmarks) if fused else "products"
    with autocast_off(q.device.type):
        given, exact = q.dtype, torch.promote_types(q.dtype, torch.float32)
        if how != "triton":
            q, k, v = (t.to(exact) if how == "sdpa" else t.to(exact).contiguous() for t in (q, k, v))
        where = None if mask is None else segments(mask, landmarks)
        q_marks, k_marks = marks_of(q, k, landmarks, where, how)
        if how == "triton":
            from .nystrom_ops import few, few_and_inverse, many

            if landmarks <= INVERTED:
                # gradients of bfloat16 inputs may have TF32's 11 bits, which is more than the inputs had
                rough = given == torch.bfloat16
                answers, inverse = few_and_inverse(q_marks, k_marks, k, v, seen, iterations, rough)
            else:
                answers, inverse = few(q_marks, k, v, seen), inverse_map(q_marks, k_marks, iterations)
            heads = many(q, k_marks, inverse @ answers)
        else:
            answers = attend(q_marks, k, v, mask=keys, fused=how == "sdpa")
            inverse = inverse_map(q_marks, k_marks, iterations)
            heads = attend(q, k_marks, inverse @ answers, fused=how == "sdpa")
        if where is not None:
            assert mask is not None
            short = (mask & (mask.sum(dim=1, keepdim=True) <= landmarks))[:, None, :, None]
            own = answers.take_along_dim(where.clamp_min(0)[:, None, :, None], dim=2)  # each landmark is one token
            heads = torch.where(short, own.to(heads.dtype), heads)
        return heads.to(given)


def backend(q: Float[Tensor, "batch heads tokens head_dim"], landmarks: int) -> str:
    """How `nystrom` works on such queries: `triton` kernels on a GPU, where PyTorch's float32 attention is slow; there
    `products` for float64, beyond the sizes a kernel takes and in an exported program; `sdpa` elsewhere."""
    if q.device.type != "cuda":
        return "sdpa"
    near = q.shape[0] * q.shape[1] * landmarks * q.shape[-1] < FARTHEST  # all landmarks
    return "triton" if near and kernels_run(q) and tile(landmarks) * tile(q.shape[-1]) <= LARGEST else "products"


def inverse_map(q: Tensor, k: Tensor, iterations: int) -> Tensor:
    """Z, the pseudo-inverse of softmax(q k^T / sqrt(head_dim)) of the landmarks; on a GPU in float64, for PyTorch may
    have been told to make float32 products of TF32 ones, and 6 iterations of these leave an error of 1e-3
    (emulated)."""
    given = q.dtype
    if q.device.type == "cuda":
        q, k = q.double(), k.double()
    return pseudo_inverse(((q * q.shape[-1] ** -0.5) @ k.mT).softmax(dim=-1), iterations).to(given)


def marks_of(q: Tensor, k: Tensor, landmarks: int, where: Tensor | None, how: str) -> tuple[Tensor, Tensor]:
    """The landmarks of q and of k: means of segments of the tokens, or of the real ones as `where` divides them."""
    if where is not None:
        return masked_means(q, k, where, landmarks)
    if how == "triton":
        from .nystrom_ops import landmarks_of

        return landmarks_of(q, k, landmarks)
    return means(q, landmarks), means(k, landmarks)


def means(x: Float[Tensor, "... tokens d"], landmarks: int) -> Float[Tensor, "... landmarks d"]:
    """Means of `landmarks` segments; the first tokens mod landmarks of them hold one token more than the others."""
    size, longer = x.shape[-2] // landmarks, x.shape[-2] % landmarks  # divmod of a dynamic shape is not traced
    exact = torch.promote_types(x.dtype, torch.float32)
    first, rest = x.split((longer * (size + 1), (landmarks - longer) * size), dim=-2)
    rest = rest.unflatten(-2, (landmarks - longer, size)).mean(dim=-2, dtype=exact)
    return (
        torch.cat((first.unflatten(-2, (longer, size + 1)).mean(dim=-2, dtype=exact), rest), dim=-2) if longer else rest
    )


def segments(mask: Bool[Tensor, "batch tokens"], landmarks: int) -> Int[Tensor, "batch tokens"]:
    """The segment of every real token, -1 elsewhere: those of `means` over the real tokens of each sample, in order."""
    rank = mask.cumsum(dim=1) - 1
    count = rank[:, -1:] + 1
    size, longer = count // landmarks, count % landmarks
    cut = longer * (size + 1)
    late = longer + (rank - cut) // size.clamp_min(1)
    return torch.where(mask, torch.where(rank < cut, rank // (size + 1), late), -1)


def masked_means(q: Tensor, k: Tensor, where: Int[Tensor, "batch tokens"], landmarks: int) -> tuple[Tensor, Tensor]:
    """Means of q and of k over the segments `where`, as products with a landmarks x tokens matrix: unlike scattered
    sums they add in one order always. A segment without tokens gives 0."""
    q, k = (t.to(torch.promote_types(t.dtype, torch.float32)) for t in (q, k))
    member = (where[:, None] == torch.arange(landmarks, device=where.device)[:, None]).to(q.dtype)
    weight = member / member.sum(dim=2, keepdim=True).clamp_min(1)
    return torch.einsum("bmn,bhnd->bhmd", weight, q), torch.einsum("bmn,bhnd->bhmd", weight, k)


def autocast_off(device: str) -> AbstractContextManager[object]:
    """A context without autocast; the meta device has none to begin with."""
    return nullcontext() if device == "meta" else torch.autocast(device, enabled=False)


def pseudo_inverse(matrix: Float[Tensor, "*batch n n"], iterations: int) -> Float[Tensor, "*batch n n"]:
    """Z <- Z (13 - A (15 - A (7 - A))) / 4 with A = matrix Z, from matrix^T over its largest column sum.

    `matrix` is a softmax (rows sum to 1), for which that start converges. The sum is each matrix's own: the published
    code takes the largest of the whole batch, and a sample's output there depends on its neighbours. Small singular
    values s need about 2 log(1/s) / log(3.25) iterations. A is always formed anew from the matrix: iterating A itself
    would save half the products and diverges in float32 after some 15 iterations."""
    flat = matrix.reshape(-1, *matrix.shape[-2:])
    start = flat.mT / flat.sum(dim=1).amax(dim=-1)[:, None, None]
    return _Iterated.apply(flat, start, iterations).reshape(matrix.shape)


class _Iterated(torch.autograd.Function):
    """The iteration of `pseudo_inverse`, its backward pass by hand: half as many operations as recorded ones."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, z: Tensor, iterations: int) -> Tensor:
        kept = [matrix]
        for _ in range(iterations):
            a = torch.bmm(matrix, z)
            b = torch.baddbmm(a, a, a, beta=7, alpha=-1)
            c = torch.baddbmm(a, a, b, beta=15, alpha=-1)
            kept += (z, a, b, c)
            z = torch.baddbmm(z, z, c, beta=13 / 4, alpha=-1 / 4)
        ctx.save_for_backward(*kept)
        return z

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dz: Tensor) -> tuple[Tensor, Tensor, None]:
        matrix, *kept = ctx.saved_tensors
        dmatrix = torch.zeros_like(matrix)
        with autocast_off(matrix.device.type):  # the one that calls backward may be under autocast
            for at in range(len(kept) - 4, -1, -4):
                z, a, b, c = kept[at : at + 4]
                dc = torch.baddbmm(z, z.mT, dz, beta=0, alpha=-1 / 4)
                db = torch.baddbmm(a, a.mT, dc, beta=0, alpha=-1)
                da = torch.baddbmm(dc, dc, b.mT, beta=15, alpha=-1).add_(db, alpha=7).baddbmm_(db, a.mT, alpha=-1)
                da.baddbmm_(a.mT, db, alpha=-1)
                dz = torch.baddbmm(dz, dz, c.mT, beta=13 / 4, alpha=-1 / 4).baddbmm_(matrix.mT, da)
                dmatrix.baddbmm_(da, z.mT)
        return dmatrix, dz, None


class NystromAttention(QkvAttention):
    """out([nystrom(q_h, k_h, v_h) + skip_h * v_h for every head h, side by side]).

    `skip` is one filter per head of `conv` taps along the sequence, the same for all channels of the head. Attention
    weights never exist as such, so their dropout does not apply here."""

    def __init__(self, width: int, spec: Attention, rates: Rates = Rates()) -> None:
        super().__init__(width, spec, rates)
        assert isinstance(spec.mix, Nystrom)
        self.mix = spec.mix
        self.skip = nn.Parameter(torch.empty(spec.heads, spec.mix.conv)) if spec.mix.conv else None
        self.reset_skip()

    def reset_skip(self, std: float | None = None) -> None:
        """Draw the filters: N(0, std), or uniform as a convolution of PyTorch starts."""
        if self.skip is None:
            return
        bound = self.mix.conv**-0.5
        _ = nn.init.uniform_(self.skip, -bound, bound) if std is None else nn.init.normal_(self.skip, std=std)

    def forward(
        self, x: Float[Tensor, "batch tokens width"], mask: Bool[Tensor, "batch tokens"] | None = None
    ) -> Float[Tensor, "batch tokens width"]:
        spec = self.spec
        q, k, values = self.qkv(x).split(spec.inner, dim=-1)
        q, k, v = (t.unflatten(-1, (spec.heads, spec.head_dim)) for t in (q, k, values))
        q, k, v = (part.transpose(1, 2) for part in (*self.normed(q, k), v))
        q, k = q.to(v.dtype), k.to(v.dtype)
        heads = nystrom(q, k, v, self.mix.landmarks, self.mix.iterations, mask, fused=self.fused)
        joined = heads.transpose(1, 2).flatten(2)
        if self.skip is not None:
            joined = joined + self.convolve(values, mask)
        return self.project(joined)

    def convolve(
        self, values: Float[Tensor, "batch tokens inner"], mask: Bool[Tensor, "batch tokens"] | None = None
    ) -> Float[Tensor, "batch tokens inner"]:
        """`skip` along the sequence, padding taken as 0. Without a kernel it is a depthwise convolution over all inner
        channels, channels last: 5 times faster on a CPU than one over heads with head_dim as a second dimension."""
        assert self.skip is not None
        if kernels_run(values):
            from .filter_kernels import conv

            return conv(values, self.skip, mask)
        taps, inner = self.mix.conv, self.spec.inner
        values = values if mask is None else values * mask[..., None]
        image = values.transpose(1, 2).unsqueeze(-1).contiguous(memory_format=torch.channels_last)
        weight = self.skip.repeat_interleave(self.spec.head_dim, dim=0).view(inner, 1, taps, 1)
        weight = weight.contiguous(memory_format=torch.channels_last)
        return F.conv2d(image, weight, padding=(taps // 2, 0), groups=inner).squeeze(-1).transpose(1, 2)
