"""Sets of points in R^dim for the rank experiments (2407.16153), and the point that answers a query."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor
from torch.nn import functional

from manyheads.spec.datasets import Cloud


def sphere(generator: Generator, *shape: int) -> Float[Tensor, "*rows dim"]:
    """Independent points, uniform on the unit sphere in the last dimension, on the generator's device."""
    return functional.normalize(torch.randn(shape, generator=generator, device=generator.device), dim=-1)


def cloud(kind: Cloud, generator: Generator, rows: int, tokens: int, dim: int) -> Float[Tensor, "rows tokens dim"]:
    """`rows` sets of `tokens` unit vectors. `sphere`: independent. `orthogonal`: the first rows of a random rotation,
    at most `dim` of them (the distribution of the theorems). `doubled`: half are independent, half their opposites."""
    match kind:
        case "sphere":
            return sphere(generator, rows, tokens, dim)
        case "orthogonal":  # Gram and Schmidt by Cholesky: rows of L^-1 X are orthonormal, and uniform as X is
            x = torch.randn(rows, tokens, dim, generator=generator, device=generator.device, dtype=torch.float64)
            # not checked, which would wait for the device: normal matrices have full rank
            orthonormal = torch.linalg.solve_triangular(torch.linalg.cholesky_ex(x @ x.mT).L, x, upper=False)
            return orthonormal.float()
        case "doubled":
            half = sphere(generator, rows, tokens // 2, dim)
            return torch.cat((half, -half), dim=1)


def farthest(points: Float[Tensor, "rows tokens dim"]) -> Int[Tensor, "rows tokens"]:
    """For every point the number of the point farthest from it (the nearest is the point itself)."""
    return (points @ points.mT).argmin(dim=-1)


def nearest(
    points: Float[Tensor, "rows tokens dim"], query: Float[Tensor, "rows dim"], biases: Float[Tensor, " biases"]
) -> Int[Tensor, " rows"]:
    """The number of the point with the largest score <point, query>.

    With `biases`, the point that the alternating sum (+ first) of the functions x_argmax(<x_i, query> + bias [i = 0])
    over all biases gives. As biases rise, the first functions give the best of the other points and all later ones give
    point 0. An odd number of alternating terms leaves one: point 0 if the number of later functions is odd."""
    scores = (points @ query[..., None]).squeeze(-1)
    if not len(biases):
        return scores.argmax(dim=-1)
    others = scores[:, 1:].max(dim=-1)
    chosen = (biases > (others.values - scores[:, 0])[:, None]).sum(dim=-1)
    return torch.where(chosen % 2 == 1, 0, others.indices + 1)
