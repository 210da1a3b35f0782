"""kappa, the condition number, of many tokens x inner matrices at once, raw and with the token mean removed.

There are three methods; all compute in float64 whatever the input:
* `eigen`, the default off CUDA: eigenvalues of the Gram matrix on the smaller side. A Gram matrix squares kappa, so a
  matrix whose kappa comes out beyond 1e5 is measured again by `exact`.
* `products`, the default on CUDA, where it never waits for the device: eigenvectors of the same Gram matrix by matrix
  products alone, then singular values as |A u|. These restore what the Gram matrix lost, up to kappa 2e6.
* `exact`: QR of the matrix, then singular values of its triangle.

Measure in float32 with TF32 off. Half-precision activations read low (kappa 9e3 reads as 7e3 in bfloat16), and matrices
stored in float32 show no kappa above about 3e8. `docs/theory.md` has the agreement of all three with a float64 SVD.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from manyheads.spec.errors import UserError

from .singular_values import Ends, ScaledMatrices, by_eigen, by_exact, by_products, scaled

Method = Literal["eigen", "products", "exact"]
LIMITS: dict[str, float] = {"eigen": 1e11, "products": 2e6, "exact": 1e11}  # kappa is right to 1e-4 up to here
# sigma_min / sigma_max below which a matrix counts as rank-deficient
FLOORS: dict[str, float] = {"eigen": 3e-14, "products": 1e-7, "exact": 3e-14}
PART = {"cpu": 2**22, "cuda": 2**33}  # float64 bytes computed at once: what fits a cache, and what fits a device
GRAM_FLOOR = 1e-7  # what a singular value of zero may read as, from a Gram matrix


@dataclass(frozen=True)
class Spectrum:
    """Numbers from the singular values of each matrix; every field has the batch's shape.

    `kappa` = sigma_max / sigma_min, where sigma_min is number min(tokens, inner) by size. The `centred` values are
    those of the matrix with its token mean removed; there sigma_min is number min(tokens - 1, inner), since the removed
    direction does not count. A matrix without full rank in the method's arithmetic has sigma_min 0 and kappa inf; a
    matrix that is not finite has NaN. Neither is `reliable`, nor is a kappa beyond the method's limit.

    `stable_rank` = sum s^2 / max s^2; `participation` = (sum s^2)^2 / sum s^4; `effective_rank` = exp of the entropy
    of s^2 / sum s^2; `numerical_rank` counts s above max(tokens, inner) x (input precision) x max s. All are of
    the raw matrix. The last two need every singular value and are None unless `ranks=True`. A reliable matrix of float64
    has the numerical rank min(tokens, inner); one of float32 may have less, since values below its own precision do not
    count."""

    sigma_max: Float[Tensor, "*batch"]
    sigma_min: Float[Tensor, "*batch"]
    kappa: Float[Tensor, "*batch"]
    log_kappa: Float[Tensor, "*batch"]
    reliable: Bool[Tensor, "*batch"]
    centred_sigma_max: Float[Tensor, "*batch"]
    centred_sigma_min: Float[Tensor, "*batch"]
    centred_kappa: Float[Tensor, "*batch"]
    centred_log_kappa: Float[Tensor, "*batch"]
    centred_reliable: Bool[Tensor, "*batch"]
    stable_rank: Float[Tensor, "*batch"]
    participation: Float[Tensor, "*batch"]
    effective_rank: Float[Tensor, "*batch"] | None = None
    numerical_rank: Int[Tensor, "*batch"] | None = None


@dataclass(frozen=True)
class Edges:
    """The extreme singular values of each matrix, raw; fields as in `Spectrum`."""

    sigma_max: Float[Tensor, "*batch"]
    sigma_min: Float[Tensor, "*batch"]
    kappa: Float[Tensor, "*batch"]
    log_kappa: Float[Tensor, "*batch"]
    reliable: Bool[Tensor, "*batch"]


def spectrum(
    matrices: Float[Tensor, "*batch tokens inner"],
    *,
    mask: Bool[Tensor, "*batch tokens"] | None = None,
    method: Method | Literal["auto"] = "auto",
    exact: bool = False,
    ranks: bool = False,
) -> Spectrum:
    """Singular values of every matrix, raw and centred, and its ranks. Tokens where `mask` is False are left out.

    `exact=True` is `method="exact"`; `auto` is `products` on CUDA and `eigen` elsewhere. `ranks=True` adds the
    effective and the numerical rank. They cost nothing more with `eigen` and `exact`; `products` calls
    `torch.linalg.eigvalsh`."""

    def measure(block: ScaledMatrices, name: str) -> dict[str, Tensor]:
        return _spectrum(block, name, ranks, matrices.dtype)

    return Spectrum(**_in_parts(measure, matrices, mask, "exact" if exact else method, centre=True))


def edges(
    matrices: Float[Tensor, "*batch tokens inner"],
    *,
    mask: Bool[Tensor, "*batch tokens"] | None = None,
    method: Method | Literal["auto"] = "auto",
) -> Edges:
    """The raw extreme singular values alone, for about half the work of `spectrum`."""
    return Edges(**_in_parts(_raw, matrices, mask, method, centre=False))


def _in_parts(
    measure: Callable[[ScaledMatrices, str], dict[str, Tensor]],
    matrices: Tensor,
    mask: Tensor | None,
    method: str,
    *,
    centre: bool,
) -> dict[str, Tensor]:
    """Apply `measure` to the batch in parts of PART bytes and join the results in the batch's shape."""
    if matrices.ndim < 2 or not matrices.is_floating_point() or 0 in matrices.shape[-2:]:
        raise UserError(f"kappa needs real matrices of tokens x inner, not {matrices.dtype} of {tuple(matrices.shape)}")
    if mask is not None and (mask.shape != matrices.shape[:-1] or mask.dtype != torch.bool):
        raise UserError(
            f"a mask says True or False for each token: torch.bool of {tuple(matrices.shape[:-1])}, "
            f"not {mask.dtype} of {tuple(mask.shape)}"
        )
    name = ("products" if matrices.is_cuda else "eigen") if method == "auto" else method
    if name not in LIMITS:
        raise UserError(f"no method {name!r}: write {', '.join(LIMITS)} or auto")
    tokens, inner = matrices.shape[-2:]
    size = max(1, PART["cuda" if matrices.is_cuda else "cpu"] // (8 * tokens * inner))
    flat, keep = matrices.detach().reshape(-1, tokens, inner), None if mask is None else mask.reshape(-1, tokens)
    parts = [
        measure(scaled(flat[at : at + size], None if keep is None else keep[at : at + size], centre), name)
        for at in range(0, max(1, len(flat)), size)
    ]
    return {field: torch.cat([part[field] for part in parts]).reshape(matrices.shape[:-2]) for field in parts[0]}


def _raw(block: ScaledMatrices, name: str) -> dict[str, Tensor]:
    if name == "exact":
        ends, _ = by_exact(block, False)
    elif name == "eigen":
        ends, _, _ = by_eigen(block, block.gram(block.wide), False)
    else:
        (ends,) = by_products(block, (block.gram(block.wide),))
    return _edges(block, name, ends, False)


def _spectrum(block: ScaledMatrices, name: str, ranks: bool, dtype: torch.dtype) -> dict[str, Tensor]:
    values: Tensor | None = None  # squared singular values of the raw matrix
    exact = torch.zeros_like(block.finite)  # where they do not come from a Gram matrix
    if name == "exact":
        raw, values = by_exact(block, False)
        exact = ~exact
        centred, fourth = by_exact(block, True)[0], values.square().sum(-1)
    else:
        grams = block.grams(block.wide)
        fourth = grams[0].square().sum((-2, -1))
        if name == "eigen":
            raw, values, exact = by_eigen(block, grams[0], False)
            centred, _, _ = by_eigen(block, grams[1], True)
        else:
            raw, centred = by_products(block, grams)
            values = torch.linalg.eigvalsh(grams[0]).clamp(min=0) if ranks else None
    energy, tiny = block.energy(), torch.finfo(torch.float64).tiny
    fields = _edges(block, name, raw, False)
    fields |= {f"centred_{field}": value for field, value in _edges(block, name, centred, True).items()}
    fields["stable_rank"] = energy / raw[0].square().clamp(min=tiny)
    fields["participation"] = energy.square() / fourth.clamp(min=tiny)
    if ranks:
        assert values is not None
        part = values / energy.clamp(min=tiny)[:, None]
        entropy = -(part * part.clamp(min=tiny).log()).sum(-1)
        fields["effective_rank"] = torch.where(energy > 0, entropy.exp(), 0.0).where(block.finite, torch.nan)
        precision = torch.finfo(dtype).eps if dtype.itemsize > 2 else torch.finfo(torch.float32).eps
        floor = torch.where(exact, FLOORS["exact"], GRAM_FLOOR).clamp(min=max(block.tokens, block.inner) * precision)
        fields["numerical_rank"] = (values.sqrt() > (floor * raw[0])[:, None]).sum(-1)
    return fields


def _edges(block: ScaledMatrices, name: str, ends: Ends, centred: bool) -> dict[str, Tensor]:
    """The two ends and their kappa by name, and whether kappa is reliable."""
    top, bottom = ends
    full = (block.count(centred) > 0) & (bottom > FLOORS[name] * top)
    bottom = torch.where(full, bottom, 0.0)
    kappa = torch.where(full, top / torch.where(full, bottom, 1.0), torch.inf)
    fields = {
        "sigma_max": top * block.scale,
        "sigma_min": bottom * block.scale,
        "kappa": kappa,
        "log_kappa": kappa.log(),
    }
    fields = {field: value.where(block.finite, torch.nan) for field, value in fields.items()}
    return {**fields, "reliable": fields["kappa"] <= LIMITS[name]}
