"""`NearestNeighbor`: find a point among others, the target of the rank experiments (2407.16153)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from manyheads.data.point_clouds import cloud, farthest, nearest, sphere
from manyheads.spec.arch import Arch
from manyheads.spec.datasets import CLOUDS, Cloud
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Coordinates, Points
from manyheads.spec.validate import between

from .drawn import DrawnWork

SPAN = 3.0  # standard deviations of a score's difference over which the biases are spread


@dataclass(frozen=True)
class NearestNeighbor:
    """`tokens` points of R^`dim` in, one of them out.

    `query` self: every point asks, and the answer is the one farthest from it, since the nearest is itself (what the
    paper trains). separate: a point y of its own, uniform on the sphere, stands after the others and asks for the one
    nearest to it (what the theorems are about); a model without positions cannot tell it from them. The answer is read
    at the tokens that ask. `points` is their distribution, see `data.point_clouds`.

    `biases`, an odd number, makes the target of Theorem 3 of it: the alternating sum of that many nearest-neighbour
    functions whose first point's score is raised by a bias, spread evenly, with y normal. UNVERIFIED: the paper's own
    biases were not at hand; it has 2 dim^2 + 1.

    The loss is the squared distance between output and answer, so that an output of zeros has 1. No sample comes twice;
    `replay` repeats the same so many batches for ever, as the published code does. `held` samples are held out."""

    dim: int = 64
    tokens: int = 16
    query: Literal["self", "separate"] = "self"
    points: Cloud = "sphere"
    biases: int = 0
    replay: int = 0
    held: int = 4096

    def __post_init__(self) -> None:
        for name, least in (("dim", 1), ("tokens", 2), ("biases", 0), ("replay", 0), ("held", 1)):
            between(f"NearestNeighbor.{name}", getattr(self, name), least, whole=True)
        if self.query not in ("self", "separate"):
            raise UserError(f"NearestNeighbor.query is {self.query!r}; write 'self' or 'separate'")
        if self.points not in CLOUDS:
            raise UserError(f"NearestNeighbor.points is {self.points!r}; write one of {', '.join(CLOUDS)}")
        if self.points == "orthogonal" and self.tokens > self.dim:
            raise UserError(
                f"NearestNeighbor has {self.tokens} orthogonal points of R^{self.dim}; write tokens={self.dim} or fewer"
            )
        if self.points == "doubled" and (self.tokens % 2 or self.query == "self"):
            raise UserError(
                f"NearestNeighbor has {self.tokens} doubled points with query={self.query!r}, and the farthest "
                "is always the opposite; write an even number of tokens and query='separate'"
            )
        if self.biases and (self.query == "self" or self.biases % 2 == 0):
            raise UserError(
                f"NearestNeighbor.biases is {self.biases} with query={self.query!r}; write an odd number and "
                "query='separate', or 0"
            )

    @property
    def given(self) -> tuple[int, int]:
        """Tokens and coordinates that a model is given: a separate query is one token more."""
        return self.tokens + (self.query == "separate"), self.dim

    def check(self, arch: Arch) -> None:
        """Refuse a model that takes other points."""
        tokens, dim = self.given
        if not isinstance(arch.embed, Points) or not isinstance(arch.head, Coordinates):
            raise UserError(
                f"NearestNeighbor gives points and a {arch.family} model reads {type(arch.embed).__name__} "
                "input; take nearest_neighbor"
            )
        takes = (arch.stages[0].tokens, arch.embed.dim, arch.head.dim)
        if takes != (tokens, dim, dim):
            raise UserError(
                f"NearestNeighbor gives {tokens} tokens of {dim} coordinates and asks for {dim}; the model "
                f"takes {takes[0]} of {takes[1]} and gives {takes[2]}: write nearest_neighbor(dim={dim}, "
                f"tokens={tokens}, ...)"
            )

    def open(self, device: torch.device, seed: int, batch: int, *, root: Path | None = None) -> DrawnWork:
        """The task at work."""
        between("batch", batch, 1, whole=True)
        return DrawnWork(self, device, seed, batch)

    def draw(self, generator: Generator, rows: int) -> tuple[Tensor, Tensor]:
        """Tokens, rows x given tokens x dim, and the answers, rows x asking tokens x dim."""
        x = cloud(self.points, generator, rows, self.tokens, self.dim)
        if self.query == "self":
            return x, x.take_along_dim(farthest(x)[..., None], dim=1)
        device = generator.device
        if self.biases:
            y = torch.randn(rows, 1, self.dim, generator=generator, device=device)
        else:
            y = sphere(generator, rows, 1, self.dim)
        # two orthonormal points and a normal query: the difference of their scores has variance 2
        biases = torch.linspace(-SPAN, SPAN, self.biases, device=device) * 2**0.5
        chosen = nearest(x, y[:, 0], biases)
        return torch.cat((x, y), dim=1), x.take_along_dim(chosen[:, None, None], dim=1)

    def error(
        self, output: Float[Tensor, "rows given dim"], points: Tensor, answers: Float[Tensor, "rows asking dim"], /
    ) -> Float[Tensor, " rows"]:
        """Squared distance to the answer, mean over the tokens that ask."""
        return (output[:, -answers.shape[1] :] - answers).square().sum(-1).mean(-1)

    def judge(self, output: Tensor, points: Tensor, answers: Tensor, /) -> dict[str, Tensor]:
        """`accuracy`: how often the answer is the point to which the output is most alike."""
        known = points[:, : self.tokens].mT
        right = (output[:, -answers.shape[1] :] @ known).argmax(-1) == (answers @ known).argmax(-1)
        return {"accuracy": right.double().mean(-1)}

    def trivial(self) -> dict[str, float]:
        """An output of zeros, and `linear`: the best a x_i + b (sum of the others), for which no attention is
        needed."""
        return {"loss": 1.0, "linear": linear(self), "accuracy": 1 / self.tokens}


@lru_cache
def linear(task: NearestNeighbor) -> float:
    """Loss of the best combination of the asking token and the sum of the points, fitted to samples."""
    rows = max(256, 2**21 // (task.tokens * task.dim))
    tokens, answers = (part.double() for part in task.draw(Generator().manual_seed(0), rows))
    asking, total = tokens[:, -answers.shape[1] :], tokens[:, : task.tokens].sum(1, keepdim=True)
    features = torch.stack((asking, total.expand_as(asking)), dim=-1).flatten(0, -2)
    wanted = answers.flatten()
    gram, along = features.T @ features, features.T @ wanted
    return float(1 - along @ torch.linalg.pinv(gram) @ along / answers[..., 0].numel())
