"""`Regression`: learn a linear function from examples in the context, the rank argument's less synthetic task.

As in the in-context regression of Garg et al. (2208.01066), which the second paper repeats with fewer and more heads;
but an example is one token, and all answers are asked at once, so that the encoder of the rank experiments can do it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Coordinates, Points
from manyheads.spec.validate import between

from .drawn import DrawnWork


@dataclass(frozen=True)
class Regression:
    """`examples` tokens (x, <w, x> + noise), then `queries` tokens (x, 0); the answer to each is <w, x>, read in the
    last coordinate. x is normal in `dim` dimensions, w normal of variance 1/dim and another one in each sample: zeros
    score 1.

    `noise` is a standard deviation. `replay` and `held` as in `NearestNeighbor`."""

    dim: int = 5
    examples: int = 10
    queries: int = 4
    noise: float = 0.0
    replay: int = 0
    held: int = 4096

    def __post_init__(self) -> None:
        for name, least in (("dim", 1), ("examples", 1), ("queries", 1), ("replay", 0), ("held", 1)):
            between(f"Regression.{name}", getattr(self, name), least, whole=True)
        between("Regression.noise", self.noise, 0)

    @property
    def given(self) -> tuple[int, int]:
        """Tokens and coordinates that a model is given."""
        return self.examples + self.queries, self.dim + 1

    def check(self, arch: Arch) -> None:
        """Refuse a model that takes other tokens, or cannot tell a question from an example."""
        tokens, dim = self.given
        if not isinstance(arch.embed, Points) or not isinstance(arch.head, Coordinates):
            raise UserError(
                f"Regression gives points and a {arch.family} model reads {type(arch.embed).__name__} input; "
                "take nearest_neighbor"
            )
        takes = (arch.stages[0].tokens, arch.embed.dim, arch.head.dim)
        if takes != (tokens, dim, dim) or arch.embed.positions == "none":
            raise UserError(
                f"Regression gives {tokens} tokens of {dim} coordinates and asks for {dim}; the model takes "
                f"{takes[0]} of {takes[1]}, gives {takes[2]} and has positions {arch.embed.positions!r}: write "
                f"nearest_neighbor(dim={dim}, tokens={tokens}, positions='concat', ...)"
            )

    def open(self, device: torch.device, seed: int, batch: int, *, root: Path | None = None) -> DrawnWork:
        """The task at work."""
        between("batch", batch, 1, whole=True)
        return DrawnWork(self, device, seed, batch)

    def draw(self, generator: Generator, rows: int) -> tuple[Tensor, Tensor]:
        """Tokens, rows x tokens x (dim + 1), and the answers, rows x queries."""
        numbers = torch.randn(rows, self.given[0] + 1, self.dim + 1, generator=generator, device=generator.device)
        x, w = numbers[:, :-1, : self.dim], numbers[:, -1, : self.dim] / self.dim**0.5
        y = (x @ w[..., None]).squeeze(-1)
        told = y[:, : self.examples] + self.noise * numbers[:, : self.examples, self.dim]
        asked = torch.zeros_like(y[:, self.examples :])
        return torch.cat((x, torch.cat((told, asked), dim=1)[..., None]), dim=-1), y[:, self.examples :].clone()

    def error(
        self, output: Float[Tensor, "rows tokens dim"], tokens: Tensor, answers: Float[Tensor, "rows queries"], /
    ) -> Float[Tensor, " rows"]:
        """Squared error, mean over the questions."""
        return (output[:, -self.queries :, -1] - answers).square().mean(-1)

    def judge(self, output: Tensor, tokens: Tensor, answers: Tensor, /) -> dict[str, Tensor]:
        """Nothing else."""
        return {}

    def trivial(self) -> dict[str, float]:
        """Zeros, and `best`: what the posterior mean of w gives, with all examples and the noise known."""
        return {"loss": 1.0, "best": best(self)}


@lru_cache
def best(task: Regression) -> float:
    """Loss of ridge regression with the weight that noise and prior call for, on samples."""
    tokens, answers = (part.double() for part in task.draw(Generator().manual_seed(0), 4096))
    x, y = tokens[:, : task.examples, :-1], tokens[:, : task.examples, -1:]
    weight = torch.eye(task.dim, dtype=x.dtype) * (task.noise**2 * task.dim)
    w = torch.linalg.pinv(x.mT @ x + weight, hermitian=True) @ (x.mT @ y)
    asked = tokens[:, task.examples :, :-1]
    return float(((asked @ w).squeeze(-1) - answers).square().mean())
