"""What is measured at every recorded attention call: kappa and ranks of its heads, and on request (`Detail`) attention
entropy and kappa of tokens, values and MLP.

Matrices of one shape are measured together, and one transfer from the device carries the numbers of all calls."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from manyheads.spec.errors import UserError

from .attention_calls import AttentionCall
from .spectrum import Spectrum, edges, spectrum
from .theory import rank_coverage

NUMBERS = 2**26  # entries of the matrices measured at a time
Matrices = Float[Tensor, "matrices tokens inner"]
Mask = Bool[Tensor, "matrices tokens"]


def as_matrices(entry: AttentionCall) -> Matrices:
    """The heads of one call as one matrix for each sample or window; the rows of a grid follow each other."""
    assert entry.heads is not None
    heads, inner = entry.place.heads, entry.heads.shape[-1]
    if inner % heads:
        raise UserError(
            f"{entry.place.name}: {heads} heads do not divide inner {inner}; state the number of heads in taps="
        )
    return flat(entry.heads)


def flat(x: Tensor) -> Matrices:
    """Tokens in one dimension: (tokens, d), (batch, tokens, d) or (batch, height, width, d)."""
    return x.detach()[None] if x.ndim == 2 else x.detach().flatten(1, -2)


def one_row(entry: AttentionCall) -> bool:
    """Whether the call mixed into one query row, as class attention and pooling heads do: its heads are a row, and kappa
    of a row is 1 whatever it holds."""
    return entry.place.tap.kind == "class" or as_matrices(entry).shape[-2] == 1


def fit(entry: AttentionCall, real: Mask | None) -> Mask | None:
    """The mask for the rows of this call's matrices, on their device."""
    matrices = as_matrices(entry)
    if real is None:
        return None
    if real.shape != matrices.shape[:2]:
        raise UserError(
            f"the mask covers {tuple(real.shape)} samples x tokens, and {entry.place.name} has "
            f"{tuple(matrices.shape[:2])}; give a mask of that shape, or none"
        )
    return real.to(matrices.device)


def measure(
    sites: Sequence[tuple[Float[Tensor, "_ _ _"], Bool[Tensor, "_ _"] | None, int]], *, ranks: bool = False
) -> list[Float[Tensor, "fields _"]]:
    """For every site, on the CPU, one number for each of its matrices: kappa, log kappa, centred log kappa, stable
    rank, participation, reliable, effective and numerical rank (NaN without `ranks`), real tokens, head correlation.

    A site is given as its matrices x tokens x inner, their mask and its number of heads; sizes differ between sites."""
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
        unknown if s.numerical_rank is None else s.numerical_rank.double().where(~s.kappa.isnan(), torch.nan),
    )
    return torch.stack([field.double() for field in fields])


def correlation(matrices: Matrices, mask: Mask | None, heads: int) -> Float[Tensor, " matrices"]:
    """Mean linear CKA over the pairs of heads of each matrix; NaN where there is one head."""
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


@dataclass(frozen=True)
class Detail:
    """Further numbers of one site; None where the model does not expose what they need. Kappas are geometric means.

    `entropy` is the mean entropy of an attention map's rows, in nats. `tokens_kappa` is kappa of the attention's
    input, `values_kappa` of what it mixes. `coverage` is what rank head_dim can carry: the share of the variance of the
    score of two tokens, their mean removed, in its largest head_dim directions. `mlp_in_kappa` and `mlp_out_kappa` are
    of the weights of the MLP that follows, `mlp_hidden_kappa` of its hidden activations."""

    entropy: float | None = None
    tokens_kappa: float | None = None
    values_kappa: float | None = None
    coverage: float | None = None
    mlp_in_kappa: float | None = None
    mlp_out_kappa: float | None = None
    mlp_hidden_kappa: float | None = None


def look_closer(entry: AttentionCall, real: Bool[Tensor, "samples tokens"] | None) -> Detail:
    """The `Detail` of one recorded call."""
    inner = as_matrices(entry).shape[-1]
    tokens, values = entry.tokens, _values(entry, inner)
    first, second = (None, None) if entry.mlp is None else entry.mlp.weights()
    return Detail(
        entropy=_entropy(entry, real),
        tokens_kappa=_kappa(tokens, real),
        values_kappa=_kappa(values, real),
        coverage=None if tokens is None else _coverage(flat(tokens), real, inner // entry.place.heads),
        mlp_in_kappa=_kappa(first, None),
        mlp_out_kappa=_kappa(second, None),
        mlp_hidden_kappa=_kappa(_by_sample(entry.hidden, tokens), real),
    )


def _by_sample(hidden: Tensor | None, tokens: Tensor | None) -> Tensor | None:
    """Hidden activations by sample, where the MLP was given the tokens of all samples in one dimension."""
    if hidden is None or tokens is None or hidden.ndim != 2 or len(hidden) != tokens.shape[:-1].numel():
        return hidden
    return hidden.reshape(*tokens.shape[:-1], -1)


def _values(entry: AttentionCall, inner: int) -> Tensor | None:
    if entry.values is not None or entry.projected is None or entry.place.tap.values is None:
        return entry.values
    x = entry.projected
    match entry.place.tap.values[1]:
        case "first":
            return x[..., :inner]
        case "last":
            return x[..., -((x.shape[-1] - inner) // 2) :]
    return x


def _rows(x: Tensor, real: Bool[Tensor, "samples tokens"] | None) -> Bool[Tensor, "samples tokens"] | None:
    return real.to(x.device) if real is not None and real.shape == x.shape[:2] else None


def _kappa(x: Tensor | None, real: Bool[Tensor, "samples tokens"] | None) -> float | None:
    if x is None:
        return None
    matrices = flat(x.float() if x.dtype in (torch.float16, torch.bfloat16) else x)
    return math.exp(mean_and_spread(edges(matrices, mask=_rows(matrices, real)).log_kappa)[0])


def mean_and_spread(logs: Float[Tensor, " matrices"]) -> tuple[float, float]:
    """Mean and standard deviation of the finite logs; (inf, 0) where there is none, NaN where any is NaN: the mean of
    the others would hide that a matrix is no matrix of numbers."""
    if logs.isnan().any():
        return math.nan, math.nan
    logs = logs[logs.isfinite()]
    return (logs.mean().item(), logs.std(correction=0).item()) if len(logs) else (math.inf, 0.0)


def _entropy(entry: AttentionCall, real: Bool[Tensor, "samples tokens"] | None) -> float | None:
    if not entry.entropies:
        return None
    rows = entry.entropies[-1].double()  # samples x heads x queries; a row without any key is NaN
    if real is not None and rows.ndim == 3 and real.shape == (rows.shape[0], rows.shape[2]):
        rows = rows.transpose(1, 2)[real.to(rows.device)]
    return rows.nanmean().item()


def _coverage(
    tokens: Float[Tensor, "samples tokens width"], real: Bool[Tensor, "samples tokens"] | None, head_dim: int
) -> float:
    """Mean over samples of the coverage of rank head_dim. A score is a product of two tokens, the query's and the
    key's, so a direction in which tokens have variance v contributes v^2 to its variance."""
    x, mask = tokens.double(), _rows(tokens, real)
    weight = torch.ones_like(x[..., :1]) if mask is None else mask[..., None].to(x)
    x = (x - (x * weight).sum(1, keepdim=True) / weight.sum(1, keepdim=True).clamp_min(1)) * weight
    gram = x @ x.mT if x.shape[1] < x.shape[2] else x.mT @ x
    if not gram.isfinite().all():
        return math.nan
    spectra = torch.linalg.eigvalsh(gram).clamp_min(0).flip(-1).cpu().numpy()
    return float(sum(rank_coverage(row**2, head_dim) for row in spectra) / len(spectra))
