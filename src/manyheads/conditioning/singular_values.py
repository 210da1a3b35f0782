"""The extreme singular values of a batch of tokens x inner matrices: eigenvalues, matrix products, or an exact method.

Every matrix is first made ready (`ScaledMatrices`): in float64, scaled, its token mean set apart, padding dropped.

`by_products` never waits for the device. `torch.linalg.eigvalsh` and `svdvals` walk a CUDA batch one matrix at a time.
Products, a Cholesky factor and a triangular inverse are batched: the largest eigenvector of a Gram matrix G is sought
in G^(2^k) by k squarings, the smallest in the same power of its inverse, and STEPS products of that power with a vector
raise the power further at little cost.

How far the power is raised. A vector u = G^P e has a Rayleigh quotient below the largest eigenvalue by a relative error
of at most about W(p/e) / 2P for *any* spectrum of p values (W is Lambert's function; in the worst spectrum p - 1 equal
values lie log(p)/2P below the largest). Isolated extremes converge exponentially faster; the number of squarings is
chosen for flat spectra."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

Ends = tuple[Float[Tensor, " batch"], Float[Tensor, " batch"]]  # the largest, and the smallest of those that count
GRAM_CARRIES = 1e5  # a float64 Gram matrix gives kappa to 1e-5 up to here, whatever the spectrum
STEPS = 16  # products with a vector: each costs 1/p of a squaring, but moves as many bytes
TOLERANCE = 4e-5  # relative error of either eigenvalue; kappa has half the sum of both
RESCALE = 3  # squarings between divisions by the trace: p^-8 is far above the smallest number of float64


@dataclass(frozen=True)
class ScaledMatrices:
    """`rest` + `keep` `mean`^T is the matrix divided by `scale`; the columns of `rest` sum to zero, dropped rows are
    zero.

    `keep` is 1 at rows that count, `kept` their number. A matrix that is not `finite` gives Gram matrices of zeros.
    Without `centre` (see `scaled`), `rest` is the whole matrix and `mean` is zero."""

    rest: Float[Tensor, "batch tokens inner"]
    mean: Float[Tensor, "batch inner"]
    keep: Float[Tensor, "batch tokens"]
    kept: Float[Tensor, " batch"]
    scale: Float[Tensor, " batch"]
    finite: Bool[Tensor, " batch"]
    masked: bool

    @property
    def tokens(self) -> int:
        """Rows, dropped ones included."""
        return self.rest.shape[-2]

    @property
    def inner(self) -> int:
        """Columns."""
        return self.rest.shape[-1]

    @property
    def wide(self) -> bool:
        """Whether the tokens are the smaller side."""
        return self.tokens <= self.inner

    def subset(self, which: Bool[Tensor, " batch"]) -> ScaledMatrices:
        """Only the matrices in `which`."""
        return ScaledMatrices(
            rest=self.rest[which],
            mean=self.mean[which],
            keep=self.keep[which],
            kept=self.kept[which],
            scale=self.scale[which],
            finite=self.finite[which],
            masked=self.masked,
        )

    def matrix(self, centred: bool) -> Float[Tensor, "batch tokens inner"]:
        """The scaled matrix, with or without its token mean."""
        matrix = self.rest if centred else self.rest + self.keep[..., None] * self.mean[:, None]
        return matrix.where(self.finite[:, None, None], 0.0)

    def count(self, centred: bool) -> Float[Tensor, " batch"]:
        """Singular values that count: min(tokens, inner), or min(tokens - 1, inner) once the mean is removed."""
        return (self.kept - int(centred)).clamp(0, self.inner)

    def energy(self) -> Float[Tensor, " batch"]:
        """Sum of the squared singular values of the raw matrix."""
        return self.rest.square().sum((-2, -1)) + self.kept * self.mean.square().sum(-1)

    def gram(self, wide: bool) -> Float[Tensor, "batch size size"]:
        """Gram matrix of `rest` on the side of the tokens (`wide`) or of the inner width."""
        gram = self.rest @ self.rest.mT if wide else self.rest.mT @ self.rest
        return gram.masked_fill_(~self.finite[:, None, None], 0.0)

    def grams(self, wide: bool) -> tuple[Float[Tensor, "batch size size"], Float[Tensor, "batch size size"]]:
        """Raw and centred Gram matrix on the side of the tokens (`wide`) or of the inner width, for one large product.

        The raw matrix is computed as the centred one plus the mean's part, a sum of positive matrices. Subtracting the
        mean's part from the raw one instead would cost the centred values digits where the mean is large."""
        gram, keep, mean = self.gram(wide), self.keep, self.mean.where(self.finite[:, None], 0.0)
        if not wide:
            return torch.baddbmm(gram, (self.kept[:, None] * mean)[..., None], mean[:, None]), gram
        cross = (self.rest @ self.mean[..., None]).squeeze(-1).where(self.finite[:, None], 0.0)
        cross = cross + keep * (mean.square().sum(-1, keepdim=True) / 2)
        return torch.baddbmm(gram, torch.stack([cross, keep], -1), torch.stack([keep, cross], 1)), gram

    def stretch(self, vector: Float[Tensor, "batch size"], centred: bool, wide: bool) -> Float[Tensor, " batch"]:
        """|A^T u| for a unit vector u of tokens (`wide`) or |A u| for one of the inner width, from the matrix itself: a
        Gram matrix would square the error."""
        matrix = self.rest.mT if wide else self.rest
        image = (matrix @ vector[..., None]).squeeze(-1)
        if not centred and wide:
            image = image + self.mean * (self.keep * vector).sum(-1, keepdim=True)
        elif not centred:
            image = image + self.keep * (self.mean * vector).sum(-1, keepdim=True)
        length: Tensor = torch.linalg.vector_norm(image, dim=-1)
        return length


def scaled(
    matrices: Float[Tensor, "batch tokens inner"], mask: Bool[Tensor, "batch tokens"] | None, centre: bool
) -> ScaledMatrices:
    """Make a batch ready in as few passes over it as possible; with `centre` the token mean is set apart.

    Entries are divided by a power of two near the largest, so that no square overflows and no digit is lost."""
    if mask is not None:
        matrices = matrices.masked_fill(~mask[..., None], 0.0)
    largest = matrices.abs().amax((-2, -1)).double()
    finite = largest.isfinite()
    scale = torch.where(finite & (largest > 0), largest, 1.0).log2().floor().clamp(-1000, 1000).exp2()
    rest = matrices * scale.reciprocal()[:, None, None]  # float64 by promotion
    keep = rest.new_ones(rest.shape[:2]) if mask is None else mask.double()
    kept = keep.sum(-1)
    if not centre:
        mean = rest.new_zeros(rest[:, 0].shape)
        return ScaledMatrices(
            rest=rest, mean=mean, keep=keep, kept=kept, scale=scale, finite=finite, masked=mask is not None
        )
    mean = rest.sum(-2) / kept.clamp(min=1)[:, None]
    rest -= mean[:, None] if mask is None else keep[..., None] * mean[:, None]
    return ScaledMatrices(
        rest=rest, mean=mean, keep=keep, kept=kept, scale=scale, finite=finite, masked=mask is not None
    )


def squarings(size: int) -> int:
    """Squarings after which the largest of any `size` values is known to within TOLERANCE."""
    worst = max(1.0, math.log(size) - 1)
    worst = max(1.0, worst - math.log(worst) * (1 - 1 / worst))  # Lambert's W(size / e), a few percent high
    return max(1, math.ceil(math.log2(worst / (2 * TOLERANCE * STEPS))))


def extreme_vectors(
    gram: Float[Tensor, "batch size size"],
) -> tuple[Float[Tensor, "batch size"], Float[Tensor, "batch size"], Bool[Tensor, " batch"]]:
    """Unit eigenvectors of the largest and the smallest eigenvalue, and whether Cholesky found `gram` positive
    definite.

    Where it did not, the first vector is still right; the second is finite and has no meaning."""
    eye = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    scale = gram.diagonal(dim1=-2, dim2=-1).mean(-1)[:, None, None]
    gram = torch.where(scale > 0, gram / torch.where(scale > 0, scale, 1.0), eye)
    factor, info = torch.linalg.cholesky_ex(gram)
    definite = (info == 0) & (scale[:, 0, 0] > 0)
    factor = torch.where(definite[:, None, None], factor, eye)
    root = torch.linalg.solve_triangular(factor, eye.expand_as(factor), upper=False)
    largest, smallest = _top_vectors(torch.cat([gram, root.mT @ root])).chunk(2)
    return largest, smallest, definite


def _top_vectors(power: Float[Tensor, "batch size size"]) -> Float[Tensor, "batch size"]:
    """Eigenvector of the largest eigenvalue of each positive definite matrix."""
    for step in range(squarings(power.shape[-1])):
        if step % RESCALE == 0:
            power = power / power.diagonal(dim1=-2, dim2=-1).sum(-1)[:, None, None]
        power = power @ power
    power = power / power.diagonal(dim1=-2, dim2=-1).sum(-1)[:, None, None]
    diagonal = power.diagonal(dim1=-2, dim2=-1)
    start = diagonal.argmax(
        -1
    )  # the largest column is the start: nothing is random, so the same input gives the same bits
    vector = power.gather(-1, start[:, None, None].expand(-1, power.shape[-1], 1))
    for _ in range(STEPS - 1):
        vector = power @ (vector / torch.linalg.vector_norm(vector, dim=-2, keepdim=True))
    unit: Tensor = vector / torch.linalg.vector_norm(vector, dim=-2, keepdim=True)
    return unit.squeeze(-1)


def by_exact(block: ScaledMatrices, centred: bool) -> tuple[Ends, Float[Tensor, "batch size"]]:
    """The ends and all squared singular values, ascending, from the triangle of a QR factorisation."""
    matrix = block.matrix(centred)
    triangle = torch.linalg.qr(matrix.mT if block.wide else matrix, mode="r").R
    values = torch.linalg.svdvals(triangle).flip(-1)
    return _pick(block, values, centred), values.square()


def by_eigen(
    block: ScaledMatrices, gram: Float[Tensor, "batch size size"], centred: bool
) -> tuple[Ends, Float[Tensor, "batch size"], Bool[Tensor, " batch"]]:
    """The ends and all squared singular values, ascending, from a Gram matrix. Matrices of a kappa that it cannot carry
    are measured again by `exact`; the last result says which."""
    values = torch.linalg.eigvalsh(gram).clamp(min=0)
    top, bottom = _pick(block, values.sqrt(), centred)
    beyond = (top >= GRAM_CARRIES * bottom) & (top > 0)
    if beyond.any():
        again, squares = by_exact(block.subset(beyond), centred)
        top, bottom = (old.index_put((beyond,), new) for old, new in zip((top, bottom), again, strict=True))
        values = values.index_put((beyond,), squares)
    return (top, bottom), values, beyond


def _pick(block: ScaledMatrices, values: Float[Tensor, "batch size"], centred: bool) -> Ends:
    place = (values.shape[-1] - block.count(centred)).clamp(0, values.shape[-1] - 1).long()
    return values[:, -1], values.gather(-1, place[:, None]).squeeze(-1)


def by_products(block: ScaledMatrices, grams: tuple[Tensor, ...]) -> list[Ends]:
    """The ends for one or both of `block.grams(block.wide)`, raw first, by matrix products and in one batch.

    Padding may leave fewer tokens than `inner` in some matrices only; both sides are then computed."""
    ends = _on_side(block, grams, block.wide)
    if block.masked and not block.wide:
        for centred, other in enumerate(_on_side(block, block.grams(True)[: len(grams)], True)):
            short = block.kept - centred < block.inner
            top, bottom = (torch.where(short, new, old) for new, old in zip(other, ends[centred], strict=True))
            ends[centred] = (top, bottom)
    return ends


def _on_side(block: ScaledMatrices, grams: tuple[Tensor, ...], wide: bool) -> list[Ends]:
    filled = [_fill(block, gram, bool(centred)) if wide else gram for centred, gram in enumerate(grams)]
    parts = zip(*(vectors.chunk(len(grams)) for vectors in extreme_vectors(torch.cat(filled))), strict=True)
    return [_measure(block, *part, centred=bool(centred), wide=wide) for centred, part in enumerate(parts)]


def _measure(
    block: ScaledMatrices,
    largest: Float[Tensor, "batch size"],
    smallest: Float[Tensor, "batch size"],
    definite: Bool[Tensor, " batch"],
    *,
    centred: bool,
    wide: bool,
) -> Ends:
    if wide:
        largest, smallest = _project(block, largest, centred), _project(block, smallest, centred)
    return block.stretch(largest, centred, wide), torch.where(definite, block.stretch(smallest, centred, wide), 0.0)


def _fill(
    block: ScaledMatrices, gram: Float[Tensor, "batch tokens tokens"], centred: bool
) -> Float[Tensor, "batch tokens tokens"]:
    """The Gram matrix with the mean eigenvalue in the directions that do not count: dropped tokens and the removed
    mean.

    The mean eigenvalue is never an extreme one, and Cholesky sees a definite matrix. `_project` removes what is left of
    these directions from the eigenvectors."""
    level = gram.diagonal(dim1=-2, dim2=-1).sum(-1) / (block.kept - int(centred)).clamp(min=1)
    if block.masked:
        gram = gram + torch.diag_embed((1 - block.keep) * level[:, None])
    if centred:
        one = block.keep / block.kept.clamp(min=1).sqrt()[:, None]
        gram = torch.baddbmm(gram, (level[:, None] * one)[..., None], one[:, None])
    return gram


def _project(
    block: ScaledMatrices, vector: Float[Tensor, "batch tokens"], centred: bool
) -> Float[Tensor, "batch tokens"]:
    if block.masked:
        vector = vector * block.keep
    if centred:
        vector = vector - block.keep * (vector.sum(-1) / block.kept.clamp(min=1))[:, None]
    length: Tensor = torch.linalg.vector_norm(vector, dim=-1, keepdim=True)
    return vector / length.clamp(min=1e-30)
