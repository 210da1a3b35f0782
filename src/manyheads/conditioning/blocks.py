"""A batch of tokens x inner matrices made ready to be measured: float64, scaled, token mean set apart, padding
dropped."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor


@dataclass(frozen=True)
class Block:
    """`rest` + `keep` `mean`^T is the matrix divided by `scale`; rows of `rest` sum to zero, dropped rows are zero.

    A matrix that is not `finite` gives Gram matrices of zeros. Read without `centre`, `rest` is all and `mean` zero."""

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

    def subset(self, which: Bool[Tensor, " batch"]) -> Block:
        """Only the matrices in `which`."""
        return Block(
            self.rest[which],
            self.mean[which],
            self.keep[which],
            self.kept[which],
            self.scale[which],
            self.finite[which],
            self.masked,
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

        The raw one is the centred one and the mean's part, a sum of positive matrices: a large mean costs the centred
        values no digits, as it would if it were taken away."""
        gram, keep, mean = self.gram(wide), self.keep, self.mean.where(self.finite[:, None], 0.0)
        if not wide:
            return torch.baddbmm(gram, (self.kept[:, None] * mean)[..., None], mean[:, None]), gram
        cross = (self.rest @ self.mean[..., None]).squeeze(-1).where(self.finite[:, None], 0.0)
        cross = cross + keep * (mean.square().sum(-1, keepdim=True) / 2)
        return torch.baddbmm(gram, torch.stack([cross, keep], -1), torch.stack([keep, cross], 1)), gram

    def stretch(self, vector: Float[Tensor, "batch size"], centred: bool, wide: bool) -> Float[Tensor, " batch"]:
        """|A^T u| for a unit vector u of tokens (`wide`) or |A u| for one of the inner width: no Gram matrix, no
        square."""
        matrix = self.rest.mT if wide else self.rest
        image = (matrix @ vector[..., None]).squeeze(-1)
        if not centred and wide:
            image = image + self.mean * (self.keep * vector).sum(-1, keepdim=True)
        elif not centred:
            image = image + self.keep * (self.mean * vector).sum(-1, keepdim=True)
        length: Tensor = torch.linalg.vector_norm(image, dim=-1)
        return length


def read(
    matrices: Float[Tensor, "batch tokens inner"], mask: Bool[Tensor, "batch tokens"] | None, centre: bool
) -> Block:
    """Set a batch out as a `Block`, its mean apart if `centre`, in as few passes over it as may be.

    Entries are divided by a power of two near the largest: no square overflows, and no digit is lost."""
    if mask is not None:
        matrices = matrices.masked_fill(~mask[..., None], 0.0)
    largest = matrices.abs().amax((-2, -1)).double()
    finite = largest.isfinite()
    scale = torch.where(finite & (largest > 0), largest, 1.0).log2().floor().clamp(-1000, 1000).exp2()
    rest = matrices * scale.reciprocal()[:, None, None]  # float64 by promotion
    keep = rest.new_ones(rest.shape[:2]) if mask is None else mask.double()
    kept = keep.sum(-1)
    if not centre:
        return Block(rest, rest.new_zeros(rest[:, 0].shape), keep, kept, scale, finite, mask is not None)
    mean = rest.sum(-2) / kept.clamp(min=1)[:, None]
    rest -= mean[:, None] if mask is None else keep[..., None] * mean[:, None]
    return Block(rest, mean, keep, kept, scale, finite, mask is not None)
