"""What needs more than the heads: attention entropy, the tokens, the values, and the MLP that follows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from .listen import Heard
from .measure import as_matrices, flat
from .spectrum import edges
from .theory import rank_coverage


@dataclass(frozen=True)
class Detail:
    """Further numbers of one site; None where the model does not show what they need. Kappas are geometric means.

    `entropy` is the mean entropy of an attention map's rows, in nats. `tokens_kappa` is of the attention's input,
    `values_kappa` of what it mixes. `coverage` is what rank head_dim can carry: the share of the variance of the score
    of two tokens, their mean removed, that lies in its largest head_dim directions. `mlp_in_kappa` and `mlp_out_kappa`
    are of the weights of the MLP that follows, `mlp_hidden_kappa` of its hidden activations."""

    entropy: float | None = None
    tokens_kappa: float | None = None
    values_kappa: float | None = None
    coverage: float | None = None
    mlp_in_kappa: float | None = None
    mlp_out_kappa: float | None = None
    mlp_hidden_kappa: float | None = None


def look_closer(entry: Heard, real: Bool[Tensor, "samples tokens"] | None) -> Detail:
    """The detail of one call."""
    inner = as_matrices(entry).shape[-1]
    tokens, values = entry.tokens, _values(entry, inner)
    first, second = (None, None) if entry.mlp is None else entry.mlp.weights()
    return Detail(
        _entropy(entry, real),
        _kappa(tokens, real),
        _kappa(values, real),
        None if tokens is None else _coverage(flat(tokens), real, inner // entry.place.heads),
        _kappa(first, None),
        _kappa(second, None),
        _kappa(entry.hidden, real),
    )


def _values(entry: Heard, inner: int) -> Tensor | None:
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
    logs = edges(matrices, mask=_rows(matrices, real)).log_kappa
    logs = logs[logs.isfinite()]
    return math.exp(logs.mean().item()) if len(logs) else math.inf


def _entropy(entry: Heard, real: Bool[Tensor, "samples tokens"] | None) -> float | None:
    if not entry.entropies:
        return None
    rows = entry.entropies[-1].double()  # samples x heads x queries; a row without any key is NaN
    if real is not None and rows.ndim == 3 and real.shape == (rows.shape[0], rows.shape[2]):
        rows = rows.transpose(1, 2)[real.to(rows.device)]
    return rows.nanmean().item()


def _coverage(
    tokens: Float[Tensor, "samples tokens width"], real: Bool[Tensor, "samples tokens"] | None, head_dim: int
) -> float:
    """Mean over samples of the coverage of rank head_dim. A score is a product of two tokens, a query's and a key's: a
    direction in which tokens have variance v gives it v^2."""
    x, mask = tokens.double(), _rows(tokens, real)
    weight = torch.ones_like(x[..., :1]) if mask is None else mask[..., None].to(x)
    x = (x - (x * weight).sum(1, keepdim=True) / weight.sum(1, keepdim=True).clamp_min(1)) * weight
    gram = x @ x.mT if x.shape[1] < x.shape[2] else x.mT @ x
    spectra = torch.linalg.eigvalsh(gram).clamp_min(0).flip(-1).cpu().numpy()
    return float(sum(rank_coverage(row**2, head_dim) for row in spectra) / len(spectra))
