"""Tasks on points: the models that fit, the drawing of samples, errors, and the scores of simple guesses."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from manyheads.data.point_clouds import cloud, farthest, nearest, sphere
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.field_checks import between
from manyheads.spec.parts import Coordinates, Points
from manyheads.spec.points import NearestNeighbor, Regression

from .drawn import DrawnWork
from .task import check, open_task, wrong_input

SPAN = 3.0  # biases are spread over so many standard deviations of a difference of scores, up and down


@check.register(NearestNeighbor)
def _(task: NearestNeighbor, arch: Arch) -> None:
    """Refuse a model whose number of tokens or coordinates does not fit."""
    (tokens, dim), sizes, _ = _sizes(task, arch)
    if sizes != (tokens, dim, dim):
        raise UserError(
            f"NearestNeighbor gives {tokens} tokens of {dim} coordinates and asks for {dim}; the model "
            f"takes {sizes[0]} of {sizes[1]} and gives {sizes[2]}: write nearest_neighbor(dim={dim}, "
            f"tokens={tokens}, ...)"
        )


@check.register(Regression)
def _(task: Regression, arch: Arch) -> None:
    """Refuse a model whose tokens or coordinates do not fit, or that cannot tell a question from an example."""
    (tokens, dim), sizes, positions = _sizes(task, arch)
    if sizes != (tokens, dim, dim) or positions == "none":
        raise UserError(
            f"Regression gives {tokens} tokens of {dim} coordinates and asks for {dim}; the model takes "
            f"{sizes[0]} of {sizes[1]}, gives {sizes[2]} and has positions {positions!r}: write "
            f"nearest_neighbor(dim={dim}, tokens={tokens}, positions='concat', ...)"
        )


def _sizes(task: NearestNeighbor | Regression, arch: Arch) -> tuple[tuple[int, int], tuple[int, int, int], str]:
    """Tokens and coordinates of the task; tokens, coordinates in and coordinates out of the model; its positions."""
    if not isinstance(arch.embed, Points) or not isinstance(arch.head, Coordinates):
        raise wrong_input(f"{type(task).__name__} gives points", arch, "nearest_neighbor")
    return task.given, (arch.stages[0].tokens, arch.embed.dim, arch.head.dim), arch.embed.positions


@open_task.register(NearestNeighbor)
def _(task: NearestNeighbor, device: torch.device, seed: int, batch: int, *, root: Path | None = None) -> DrawnWork:
    """Points drawn on `device`; nothing is read."""
    between("batch", batch, 1, whole=True)
    return DrawnWork(Neighbors(task), device, seed, batch)


@open_task.register(Regression)
def _(task: Regression, device: torch.device, seed: int, batch: int, *, root: Path | None = None) -> DrawnWork:
    """Examples drawn on `device`; nothing is read."""
    between("batch", batch, 1, whole=True)
    return DrawnWork(Functions(task), device, seed, batch)


@dataclass(frozen=True)
class Neighbors:
    """Samples of a `NearestNeighbor` task: points, and the point that is the answer."""

    task: NearestNeighbor

    def draw(self, generator: Generator, rows: int) -> tuple[Tensor, Tensor]:
        """Tokens, rows x given tokens x dim, and the answers, rows x asking tokens x dim."""
        x = cloud(self.task.points, generator, rows, self.task.tokens, self.task.dim)
        if self.task.query == "self":
            return x, x.take_along_dim(farthest(x)[..., None], dim=1)
        device = generator.device
        if self.task.biases:
            y = torch.randn(rows, 1, self.task.dim, generator=generator, device=device)
        else:
            y = sphere(generator, rows, 1, self.task.dim)
        # two orthonormal points and a normal query: the difference of their scores has variance 2
        biases = torch.linspace(-SPAN, SPAN, self.task.biases, device=device) * 2**0.5
        numbers = nearest(x, y[:, 0], biases)
        return torch.cat((x, y), dim=1), x.take_along_dim(numbers[:, None, None], dim=1)

    def error(
        self, output: Float[Tensor, "rows given dim"], points: Tensor, answers: Float[Tensor, "rows asking dim"], /
    ) -> Float[Tensor, " rows"]:
        """Squared distance to the answer, averaged over the tokens that ask."""
        return (output[:, -answers.shape[1] :] - answers).square().sum(-1).mean(-1)

    def judge(self, output: Tensor, points: Tensor, answers: Tensor, /) -> dict[str, Tensor]:
        """`accuracy`: how often the answer is the point with the largest inner product with the output."""
        candidates = points[:, : self.task.tokens].mT
        right = (output[:, -answers.shape[1] :] @ candidates).argmax(-1) == (answers @ candidates).argmax(-1)
        return {"accuracy": right.double().mean(-1)}

    def trivial(self) -> dict[str, float]:
        """Scores of an output of zeros, and `linear`: the loss of the best a x_i + b (sum of the points), which needs
        no attention."""
        return {"loss": 1.0, "linear": linear(self.task), "accuracy": 1 / self.task.tokens}


@lru_cache
def linear(task: NearestNeighbor) -> float:
    """Loss of the best combination of the asking token and the sum of the points, fitted to samples."""
    rows = max(256, 2**21 // (task.tokens * task.dim))
    tokens, answers = (part.double() for part in Neighbors(task).draw(Generator().manual_seed(0), rows))
    asking, total = tokens[:, -answers.shape[1] :], tokens[:, : task.tokens].sum(1, keepdim=True)
    features = torch.stack((asking, total.expand_as(asking)), dim=-1).flatten(0, -2)
    targets = answers.flatten()
    gram, along = features.T @ features, features.T @ targets
    return float(1 - along @ torch.linalg.pinv(gram) @ along / answers[..., 0].numel())


@dataclass(frozen=True)
class Functions:
    """Samples of a `Regression` task: examples of a linear function, and questions about it."""

    task: Regression

    def draw(self, generator: Generator, rows: int) -> tuple[Tensor, Tensor]:
        """Tokens, rows x tokens x (dim + 1), and the answers, rows x queries."""
        numbers = torch.randn(
            rows, self.task.given[0] + 1, self.task.dim + 1, generator=generator, device=generator.device
        )
        x, w = numbers[:, :-1, : self.task.dim], numbers[:, -1, : self.task.dim] / self.task.dim**0.5
        y = (x @ w[..., None]).squeeze(-1)
        values = y[:, : self.task.examples] + self.task.noise * numbers[:, : self.task.examples, self.task.dim]
        blanks = torch.zeros_like(y[:, self.task.examples :])
        return torch.cat((x, torch.cat((values, blanks), dim=1)[..., None]), dim=-1), y[:, self.task.examples :].clone()

    def error(
        self, output: Float[Tensor, "rows tokens dim"], tokens: Tensor, answers: Float[Tensor, "rows queries"], /
    ) -> Float[Tensor, " rows"]:
        """Squared error, averaged over the questions."""
        return (output[:, -self.task.queries :, -1] - answers).square().mean(-1)

    def judge(self, output: Tensor, tokens: Tensor, answers: Tensor, /) -> dict[str, Tensor]:
        """No further scores."""
        return {}

    def trivial(self) -> dict[str, float]:
        """The loss of zeros, and `best`: that of the posterior mean of w given all examples and the noise."""
        return {"loss": 1.0, "best": best(self.task)}


@lru_cache
def best(task: Regression) -> float:
    """Loss on samples of ridge regression with the penalty that the noise and the prior of w imply."""
    tokens, answers = (part.double() for part in Functions(task).draw(Generator().manual_seed(0), 4096))
    x, y = tokens[:, : task.examples, :-1], tokens[:, : task.examples, -1:]
    weight = torch.eye(task.dim, dtype=x.dtype) * (task.noise**2 * task.dim)
    w = torch.linalg.pinv(x.mT @ x + weight, hermitian=True) @ (x.mT @ y)
    questions = tokens[:, task.examples :, :-1]
    return float(((questions @ w).squeeze(-1) - answers).square().mean())
