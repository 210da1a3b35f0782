"""Points of R^dim for the rank experiments (2407.16153): three distributions, and which point a query asks for."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor
from torch.nn import functional

from manyheads.spec.datasets import Cloud


def sphere(generator: Generator, *shape: int) -> Float[Tensor, "*rows dim"]:
    """Independent points, uniform on the unit sphere of the last dimension, on the generator's device."""
    return functional.normalize(torch.randn(shape, generator=generator, device=generator.device), dim=-1)


def cloud(kind: Cloud, generator: Generator, rows: int, tokens: int, dim: int) -> Float[Tensor, "rows tokens dim"]:
    """`rows` sets of `tokens` unit vectors: independent on the sphere; the first of a random rotation's (`tokens` up to
    `dim`; the distribution of the theorems); or half of them independent and the other half their opposites."""
    match kind:
        case "sphere":
            return sphere(generator, rows, tokens, dim)
        case "orthogonal":  # Gram and Schmidt by Cholesky: rows of L^-1 X are orthonormal, and uniform as X is
            x = torch.randn(rows, tokens, dim, generator=generator, device=generator.device, dtype=torch.float64)
            # unchecked: a check would wait for the device, and normal matrices have full rank
            turned = torch.linalg.solve_triangular(torch.linalg.cholesky_ex(x @ x.mT).L, x, upper=False)
            return turned.float()
        case "doubled":
            half = sphere(generator, rows, tokens // 2, dim)
            return torch.cat((half, -half), dim=1)


def farthest(points: Float[Tensor, "rows tokens dim"]) -> Int[Tensor, "rows tokens"]:
    """For every point the number of the one farthest from it: the nearest would be itself."""
    return (points @ points.mT).argmin(dim=-1)


def nearest(
    points: Float[Tensor, "rows tokens dim"], query: Float[Tensor, "rows dim"], biases: Float[Tensor, " biases"]
) -> Int[Tensor, " rows"]:
    """The number of the point with the largest score <point, query>; with `biases`, of the sum over them of the biased
    functions x_argmax(<x_i, query> + bias [i = 0]) with alternating signs, + first.

    Of the terms with rising biases the first few give the best of the other points and all later ones point 0. An odd
    number of alternating terms leaves one: point 0 where the number of later ones is odd."""
    scores = (points @ query[..., None]).squeeze(-1)
    if not len(biases):
        return scores.argmax(dim=-1)
    others = scores[:, 1:].max(dim=-1)
    chosen = (biases > (others.values - scores[:, 0])[:, None]).sum(dim=-1)
    return torch.where(chosen % 2 == 1, 0, others.indices + 1)
