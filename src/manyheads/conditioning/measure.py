"""The numbers of many sites at once: matrices of one shape together, and one transfer from the device for all."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from manyheads.spec.errors import UserError

from .listen import Heard
from .spectrum import Spectrum, spectrum

NUMBERS = 2**26  # of the matrices handled at a time
Matrices = Float[Tensor, "matrices tokens inner"]
Mask = Bool[Tensor, "matrices tokens"]


def as_matrices(entry: Heard) -> Matrices:
    """The heads of one call, a matrix for each sample or window; a grid's rows follow each other."""
    assert entry.heads is not None
    heads, inner = entry.place.heads, entry.heads.shape[-1]
    if inner % heads:
        raise UserError(f"{entry.place.name}: {heads} heads do not divide inner {inner}; state its heads in taps=")
    return flat(entry.heads)


def flat(x: Tensor) -> Matrices:
    """Tokens in one dimension: (tokens, d), (batch, tokens, d) or (batch, height, width, d)."""
    return x.detach()[None] if x.ndim == 2 else x.detach().flatten(1, -2)


def fit(entry: Heard, real: Mask | None) -> Mask | None:
    """The mask of the rows of this site's matrices."""
    matrices = as_matrices(entry)
    if real is None:
        return None
    if real.shape != matrices.shape[:2]:
        raise UserError(
            f"the mask covers {tuple(real.shape)} samples x tokens, and {entry.place.name} works on "
            f"{tuple(matrices.shape[:2])}; give a mask of that shape, or none"
        )
    return real.to(matrices.device)


def measure(
    sites: Sequence[tuple[Matrices, Mask | None, int]], *, ranks: bool = False
) -> list[Float[Tensor, "fields matrices"]]:
    """For every site, on the CPU: kappa, log kappa, centred log kappa, stable rank, participation, reliable, effective
    and numerical rank (NaN without `ranks`), real tokens, correlation of its heads; a number for each matrix."""
    shapes: dict[tuple[int, int, bool], list[int]] = {}
    for i, (matrices, mask, _) in enumerate(sites):
        shapes.setdefault((*matrices.shape[1:], mask is None), []).append(i)
    order, parts = [], []
    for (rows, inner, plain), members in shapes.items():
        mine = torch.cat([sites[i][0] for i in members])
        mask = None if plain else torch.cat([m for i in members if (m := sites[i][1]) is not None])
        size = max(1, NUMBERS // (rows * inner))
        starts = range(0, len(mine), size)
        masks = [None if mask is None else mask[at : at + size] for at in starts]
        chunks = [
            _fields(spectrum(mine[at : at + size], mask=part, ranks=ranks))
            for at, part in zip(starts, masks, strict=True)
        ]
        sizes = [len(sites[i][0]) for i in members]
        for i, fields in zip(members, torch.split(torch.cat(chunks, 1), sizes, dim=1), strict=True):
            matrices, own, heads = sites[i]
            real = torch.full((len(matrices),), float(rows)) if own is None else own.sum(1)
            order.append(i)
            parts.append(torch.cat((fields, real.to(fields)[None], correlation(matrices, own, heads).to(fields)[None])))
    together = torch.split(torch.cat(parts, 1).cpu(), [part.shape[1] for part in parts], dim=1)
    return [part for _, part in sorted(zip(order, together, strict=True), key=lambda item: item[0])]


def _fields(s: Spectrum) -> Float[Tensor, "fields matrices"]:
    unknown = torch.full_like(s.kappa, torch.nan)
    fields = (
        s.kappa,
        s.log_kappa,
        s.centred_log_kappa,
        s.stable_rank,
        s.participation,
        s.reliable,
        unknown if s.effective_rank is None else s.effective_rank,
        unknown if s.numerical_rank is None else s.numerical_rank,
    )
    return torch.stack([field.double() for field in fields])


def correlation(matrices: Matrices, mask: Mask | None, heads: int) -> Float[Tensor, " matrices"]:
    """Mean linear CKA between the heads of each matrix; nan where there is one head."""
    out = []
    size = max(1, NUMBERS // matrices.shape[-1] ** 2)
    for at in range(0, len(matrices), size):
        x = matrices[at : at + size].float()
        if mask is None:
            x = x - x.mean(dim=1, keepdim=True)
        else:
            weight = mask[at : at + size, :, None].to(x.dtype)
            x = (x - (x * weight).sum(1, keepdim=True) / weight.sum(1, keepdim=True).clamp_min(1)) * weight
        gram = (x.mT @ x).reshape(len(x), heads, x.shape[2] // heads, heads, -1)
        pairs = gram.square().sum(dim=(2, 4))
        norms = pairs.diagonal(dim1=1, dim2=2).sqrt()
        pairs = pairs / (norms[:, :, None] * norms[:, None]).clamp_min(torch.finfo(x.dtype).tiny)
        out.append((pairs.sum((1, 2)) - pairs.diagonal(dim1=1, dim2=2).sum(1)) / (heads * (heads - 1) or torch.nan))
    return torch.cat(out)
