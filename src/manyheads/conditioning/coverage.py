"""How much rank per head a model's tokens need: their spectrum at every attention, the share of it that a head_dim
covers, and the least error at finding the nearest token that this share implies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor, nn

from manyheads.spec.errors import UserError

from .attention_calls import AttentionCall, recorded_calls
from .plain_forward import arguments, call, untouched, unwrap
from .site_numbers import as_matrices, flat, one_row
from .tap_table import Kind, Tap
from .taps import find
from .theory import one_head, rank_coverage

Array = NDArray[np.float64]
ENOUGH = 0.9  # share of the score's variance below which a head cannot tell tokens apart well
FOLDS = 4
KINDS: tuple[Kind, ...] = ("softmax", "window", "pixel", "nystrom")  # their scores are products of two tokens


@dataclass(frozen=True)
class HeadCoverage:
    """What a head of rank `head_dim` covers.

    `coverage` is its share of the score's variance, and `floor` the least error of one such head at finding the nearer
    of two tokens, where 0.5 is chance. `most` is the coverage of the directions that are best on these very samples.
    The true coverage lies between the two, which meet as samples are added."""

    head_dim: int
    coverage: float
    most: float
    floor: float


@dataclass(frozen=True)
class TokenCoverage:
    """The tokens that enter one attention, and what ranks cover of them.

    `spectrum` is the share of the tokens' variance in each direction, largest first, with each sample's mean removed.
    All samples are taken together, since a head's directions are the same for all of them. `curve` is the coverage of
    rank 1, 2, ... (see `covered`). `effective_rank` is the exponential of the spectrum's entropy, `needed` the least
    rank that covers 0.9 of the score. `shares` has the attention's own head_dim first, then the requested ones."""

    name: str
    layer: int
    kind: Kind
    tokens: int
    width: int
    heads: int
    head_dim: int
    spectrum: tuple[float, ...]
    curve: tuple[float, ...]
    effective_rank: float
    needed: int
    shares: tuple[HeadCoverage, ...]


def coverage(
    model: nn.Module,
    batch: Any,
    head_dims: Sequence[int] = (),
    *,
    mask: Bool[Tensor, "samples tokens"] | None = None,
    taps: Mapping[str, Tap] | None = None,
) -> tuple[TokenCoverage, ...]:
    """One record for every call of an attention between tokens, for its own head_dim and for `head_dims`.

    `batch`, `mask` and `taps` are those of `probe`; the model is left as it was. Attention between channels, class
    attention and other attention with one query row are left out."""
    for dim in head_dims:
        if dim < 1:
            raise UserError(f"head_dim {dim}: write a whole number of at least 1")
    module = unwrap(model)
    places = [place for place in find(module, taps) if place.tap.kind in KINDS]
    first = next(module.parameters(), None)
    args, kwargs = arguments(batch, None if first is None else first.device)
    keep = kwargs.get("attention_mask") if mask is None else mask
    real = keep.bool().flatten(0, -2) if isinstance(keep, Tensor) and keep.ndim in (2, 3) else None
    with untouched(module):
        with recorded_calls(module, places, arguments=True) as calls:
            call(module, args, kwargs)
        calls = [entry for entry in calls if not one_row(entry)]
        if not calls:
            raise UserError(
                "no attention between tokens ran on this batch; rank per head does not apply to attention between "
                "channels"
            )
        return tuple(_covered(layer, entry, real, head_dims) for layer, entry in enumerate(calls))


def _covered(
    layer: int, entry: AttentionCall, real: Bool[Tensor, "samples tokens"] | None, head_dims: Sequence[int]
) -> TokenCoverage:
    tokens = _tokens(entry)
    if not tokens.isfinite().all():
        raise UserError(
            f"the tokens that enter {entry.place.name} hold NaN or infinities, so their spectrum is not defined; check "
            "the weights and the batch"
        )
    rows = centred(tokens, real)
    variances = token_variances(rows)
    curve = covered(rows)
    heads = entry.place.heads
    own = as_matrices(entry).shape[-1] // heads
    parts = variances / variances.sum() if variances.sum() > 0 else np.full_like(variances, 1 / len(variances))
    entropy = -np.sum(parts * np.log(np.where(parts > 0, parts, 1.0)))
    return TokenCoverage(
        name=entry.place.name,
        layer=layer,
        kind=entry.place.tap.kind,
        tokens=tokens.shape[1],
        width=tokens.shape[2],
        heads=heads,
        head_dim=own,
        spectrum=tuple(parts.tolist()),
        curve=tuple(curve.tolist()),
        effective_rank=float(np.exp(entropy)),
        needed=int(np.searchsorted(curve, ENOUGH - 1e-9)) + 1,
        shares=tuple(_share(curve, variances, dim) for dim in dict.fromkeys((own, *head_dims))),
    )


def _share(curve: Array, variances: Array, head_dim: int) -> HeadCoverage:
    share = float(curve[min(head_dim, len(curve)) - 1])
    return HeadCoverage(head_dim, share, rank_coverage(variances**2, head_dim), float(one_head(share)))


def centred(
    tokens: Float[Tensor, "samples tokens width"], real: Bool[Tensor, "samples tokens"] | None = None
) -> Float[Tensor, "samples tokens width"]:
    """Tokens without each sample's mean, which softmax does not see; padding becomes 0. A mask of another shape (the
    tokens are in windows) is ignored."""
    x = tokens.detach().double()
    if real is None or real.shape != x.shape[:2]:
        return x - x.mean(1, keepdim=True)
    weight = real.to(x)[..., None]
    return (x - (x * weight).sum(1, keepdim=True) / weight.sum(1, keepdim=True).clamp_min(1)) * weight


def token_variances(rows: Float[Tensor, "samples tokens width"]) -> Array:
    """Variances of centred tokens along their principal directions, all samples together, largest first."""
    flat_rows = rows.flatten(0, 1)
    gram = flat_rows.mT @ flat_rows / len(flat_rows)
    return np.asarray(torch.linalg.eigvalsh(gram).clamp_min(0).flip(-1).cpu().numpy())


def covered(rows: Float[Tensor, "samples tokens width"]) -> Array:
    """The share of the variance of the score of two tokens that rank 1, 2, ... carries.

    The score of tokens with covariance C has variance tr(C C), and tr(P C P C) within a subspace P. With few samples
    some directions look larger than they are, and their squares more so. Therefore P is chosen as the largest
    directions of three quarters of the samples, and the traces are means over pairs of *different* samples of the last
    quarter, which are unbiased. The result is the mean over the four ways to leave a quarter out."""
    folds = min(FOLDS, len(rows) // 2)
    if folds < 2:
        raise UserError(
            f"coverage cannot be measured on {len(rows)} samples, since some of them choose the directions and others "
            "measure them; give 4 or more"
        )
    number = torch.arange(len(rows)) % folds
    curves = [_crossed(rows[number != fold], rows[number == fold]) for fold in range(folds)]
    return np.asarray(np.maximum.accumulate(np.clip(np.mean(curves, axis=0), 0.0, 1.0)))


def _crossed(chosen: Float[Tensor, "chosen tokens width"], measured: Float[Tensor, "measured tokens width"]) -> Array:
    flat_rows = chosen.flatten(0, 1)
    directions = torch.linalg.eigh(flat_rows.mT @ flat_rows).eigenvectors.flip(-1)
    total = torch.zeros_like(directions)
    same = torch.zeros_like(directions)
    for sample in measured @ directions:
        own = sample.mT @ sample
        total += own
        same += own.square()
    pairs = (total.square() - same).cumsum(0).cumsum(1).diagonal()
    return np.asarray((pairs / pairs[-1]).cpu().numpy()) if pairs[-1] > 0 else np.ones(len(pairs))


def _tokens(entry: AttentionCall) -> Float[Tensor, "samples tokens width"]:
    x = entry.tokens
    assert x is not None, "an attention is called with tokens"
    module = entry.place.module
    if isinstance(module, nn.MultiheadAttention) and not module.batch_first and x.ndim == 3:
        x = x.transpose(0, 1)
    return flat(x)


def as_record(layer: TokenCoverage) -> dict[str, Any]:
    """Plain values for JSON."""
    return asdict(layer)
