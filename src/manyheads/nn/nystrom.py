"""Nyström attention (2102.03902): softmax attention through a few landmarks, at a cost linear in tokens.

    softmax(q k^T) v  ~  F1 (Z (F3 v)),   F1 = softmax(q k~^T),   F2 = softmax(q~ k~^T),   F3 = softmax(q~ k^T)

q~ and k~ are the means of `landmarks` segments of consecutive tokens, and Z is the pseudo-inverse of F2, computed by an
iteration in at least float32. The result of a sample depends on its own real tokens alone: Z starts from each matrix's
own norm, and segments divide the real tokens, wherever the padding ends.
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

LARGEST = 4096  # elements of a tile, landmarks x head_dim: with more, a kernel runs out of shared memory
INVERTED = 64  # landmarks: with more, the kernel of the inverse runs out of registers


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

    `mask` is True at real tokens; the rows of padding are finite and meaningless. Products associate to the right, so
    that F3 and F1 are one attention each: landmarks attend to all tokens, then all tokens attend to the landmarks. No
    tokens x tokens tensor exists and, except in the backend "products" and for the means of masked tokens, no tokens x
    landmarks one. Everything is computed in at least float32, because Z magnifies the rounding of half precision.
    `fused=False` materialises all maps."""
    # A sequence of nothing but padding counts as real: any finite result will do, and NaN would spread in gradients.
    seen = None if mask is None else mask | ~mask.any(dim=1, keepdim=True)
    keys = None if seen is None else seen[:, None, None]
    if q.shape[2] <= landmarks:
        return attend(q, k, v, mask=keys, fused=fused)
    how = backend(q, landmarks) if fused else "products"
    with autocast_off(q.device.type):
        dtype, exact = q.dtype, torch.promote_types(q.dtype, torch.float32)
        if how != "triton":
            q, k, v = (t.to(exact) if how == "sdpa" else t.to(exact).contiguous() for t in (q, k, v))
        where = None if mask is None else segments(mask, landmarks)
        q_marks, k_marks = marks_of(q, k, landmarks, where, how)
        if how == "triton":
            from .nystrom_ops import few, few_and_inverse, many

            if landmarks <= INVERTED:
                # Gradients of bfloat16 inputs may have TF32's 11 bits, which is more than the inputs have.
                rough = dtype == torch.bfloat16
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
        return heads.to(dtype)


def backend(q: Float[Tensor, "batch heads tokens head_dim"], landmarks: int) -> str:
    """How `nystrom` works on such queries. On a GPU, where PyTorch's float32 attention is slow, by `triton` kernels; but
    by `products` in float64, in sizes that no kernel takes, and in an exported program. Elsewhere by `sdpa`."""
    if q.device.type != "cuda":
        return "sdpa"
    near = q.shape[0] * q.shape[1] * landmarks * q.shape[-1] < FARTHEST  # all landmarks
    return "triton" if near and kernels_run(q) and tile(landmarks) * tile(q.shape[-1]) <= LARGEST else "products"


def inverse_map(q: Tensor, k: Tensor, iterations: int) -> Tensor:
    """Z, the pseudo-inverse of softmax(q k^T / sqrt(head_dim)) of the landmarks. On a GPU it is computed in float64:
    PyTorch may be set to compute float32 products in TF32, and after 6 iterations these leave an error of 1e-3
    (emulated)."""
    dtype = q.dtype
    if q.device.type == "cuda":
        q, k = q.double(), k.double()
    return pseudo_inverse(((q * q.shape[-1] ** -0.5) @ k.mT).softmax(dim=-1), iterations).to(dtype)


def marks_of(q: Tensor, k: Tensor, landmarks: int, where: Tensor | None, how: str) -> tuple[Tensor, Tensor]:
    """The landmarks of q and of k: means of segments of the tokens, or of the real tokens as `where` divides them."""
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
    """The segment of every real token, and -1 at padding. Each sample's real tokens are divided as `means` divides
    tokens."""
    rank = mask.cumsum(dim=1) - 1
    count = rank[:, -1:] + 1
    size, longer = count // landmarks, count % landmarks
    cut = longer * (size + 1)
    late = longer + (rank - cut) // size.clamp_min(1)
    return torch.where(mask, torch.where(rank < cut, rank // (size + 1), late), -1)


def masked_means(q: Tensor, k: Tensor, where: Int[Tensor, "batch tokens"], landmarks: int) -> tuple[Tensor, Tensor]:
    """Means of q and of k over the segments `where`, as products with a landmarks x tokens matrix, which always add in
    the same order; scattered sums do not. A segment without tokens gives 0."""
    q, k = (t.to(torch.promote_types(t.dtype, torch.float32)) for t in (q, k))
    member = (where[:, None] == torch.arange(landmarks, device=where.device)[:, None]).to(q.dtype)
    weight = member / member.sum(dim=2, keepdim=True).clamp_min(1)
    return torch.einsum("bmn,bhnd->bhmd", weight, q), torch.einsum("bmn,bhnd->bhmd", weight, k)


def autocast_off(device: str) -> AbstractContextManager[object]:
    """A context without autocast, which the meta device does not have."""
    return nullcontext() if device == "meta" else torch.autocast(device, enabled=False)


def pseudo_inverse(matrix: Float[Tensor, "*batch n n"], iterations: int) -> Float[Tensor, "*batch n n"]:
    """Z <- Z (13 - A (15 - A (7 - A))) / 4 with A = matrix Z, from matrix^T over its largest column sum.

    `matrix` is a softmax (rows sum to 1), for which the iteration converges from there. The column sum is each matrix's
    own: the published code takes the largest of the whole batch, which makes a sample's output depend on the others.
    A singular value s needs about 2 log(1/s) / log(3.25) iterations. A is formed from the matrix in every iteration:
    iterating A itself would save half the products and diverges in float32 after about 15 iterations."""
    flat = matrix.reshape(-1, *matrix.shape[-2:])
    start = flat.mT / flat.sum(dim=1).amax(dim=-1)[:, None, None]
    return _Iterated.apply(flat, start, iterations).reshape(matrix.shape)


class _Iterated(torch.autograd.Function):
    """The iteration of `pseudo_inverse`. Its backward pass, written by hand, takes half the operations of autograd's."""

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
        with autocast_off(matrix.device.type):  # backward may be called under autocast
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
        channels, channels last, which on a CPU is 5 times faster than one over heads with head_dim as a second
        dimension."""
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
