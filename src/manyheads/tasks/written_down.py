"""`WrittenDown`: attention that is constructed and not trained, on the targets of the rank theorems (2407.16153)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from manyheads.data.randomness import key
from manyheads.models.constructions import FullValueAttention, exact_layer
from manyheads.spec.arch import Arch, attentions
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Points
from manyheads.spec.validate import between

from .measurement import Findings, Measurement
from .nearest import SPAN, NearestNeighbor

FITTED = 16  # samples for each number that is fitted: what is learnt by heart then costs 6 % of the error


@dataclass(frozen=True)
class WrittenDown(Measurement):
    """Mean squared error of attention on `samples` questions: which of `tokens` points is nearest to a query of its
    own?

    `network` exact is Fact 1's one full-rank head. drawn has as many heads of the rank that the model's attention
    states: each compares projections on random orthonormal directions and has a bias on the first point, spread as the
    target's are in units of its scores; all values are the best there are (least squares on other samples). That is a
    bound from above on the error of such heads, and at full rank, where a projection changes no score, the construction
    of Theorem 3. `biases` as in `NearestNeighbor`."""

    network: Literal["exact", "drawn"] = "exact"
    tokens: int = 2
    biases: int = 0
    samples: int = 2048

    def __post_init__(self) -> None:
        if self.network not in ("exact", "drawn"):
            raise UserError(f"WrittenDown.network is {self.network!r}; write exact or drawn")
        between("WrittenDown.samples", self.samples, 1, whole=True)
        self._target(max(2, self.tokens))

    def _target(self, dim: int) -> NearestNeighbor:
        cloud: Literal["sphere", "orthogonal"] = "orthogonal" if self.biases else "sphere"
        return NearestNeighbor(dim, self.tokens, "separate", cloud, self.biases)

    def check(self, arch: Arch) -> None:
        """Refuse a model that takes other points."""
        if not isinstance(arch.embed, Points):
            raise UserError(
                f"WrittenDown gives points and a {arch.family} model reads {type(arch.embed).__name__} input; "
                "take nearest_neighbor"
            )
        self._target(arch.embed.dim).check(arch)

    def measure(self, arch: Arch, seed: int, device: torch.device) -> Findings:
        """Error, and how often the output is most alike to the right point."""
        assert isinstance(arch.embed, Points)
        dim, op = arch.embed.dim, attentions(arch.stages[0])[0]
        task = self._target(dim)
        if self.network == "exact":
            answer: Callable[[Tensor], Tensor] = exact_layer(dim).to(device)
        else:
            answer = self._fitted(task, op.heads, op.head_dim, seed, device)
        sample = task.draw(Generator(device).manual_seed(key(seed, "questions")), self.samples)
        with torch.no_grad():
            output = answer(sample[0])
            right = task.judge(output, *sample)["accuracy"].mean().item()
            return Findings({"loss": task.error(output, *sample).mean().item(), "accuracy": right}, ("loss", "down"))

    @torch.no_grad()
    def _fitted(
        self, task: NearestNeighbor, heads: int, rank: int, seed: int, device: torch.device
    ) -> FullValueAttention:
        """Random heads with the best values for other samples than are asked."""
        draws = Generator(device).manual_seed(key(seed, "heads"))
        layer = FullValueAttention(task.dim, heads, rank, separate=True, positions=self.tokens, hard=True).to(device)
        directions = torch.linalg.qr(torch.randn(heads, task.dim, rank, generator=draws, device=device)).Q
        layer.q.copy_(directions)
        layer.k.copy_(directions)
        assert layer.bias is not None
        layer.bias[:, 0] = torch.linspace(-SPAN, SPAN, heads, device=device) * (2 * rank / task.dim) ** 0.5
        size = max(self.samples, FITTED * heads * task.dim)
        points, answers = task.draw(Generator(device).manual_seed(key(seed, "fitted")), size)
        layer.v.copy_(_values(layer, points, answers[:, 0]))
        return layer


def _values(
    layer: FullValueAttention, points: Float[Tensor, "rows given dim"], answers: Float[Tensor, "rows dim"]
) -> Float[Tensor, "heads dim dim"]:
    """Least squares over what the heads choose."""
    heads, dim = layer.v.shape[:2]
    known, query = points[:, :-1].double(), points[:, -1].double()
    q, k = (
        torch.einsum("...w,hwr->...hr", side, weight.double()) for side, weight in ((query, layer.q), (known, layer.k))
    )
    scores = torch.einsum("bhr,bnhr->bhn", q, k)
    assert layer.bias is not None
    chosen = (scores + layer.bias.double()).argmax(-1)  # rows, heads
    features = known.take_along_dim(chosen.flatten(1)[..., None], dim=1).flatten(1)
    gram = features.mT @ features
    gram.diagonal().add_(1e-6 * gram.diagonal().mean())  # heads that always choose alike would make it singular
    return torch.linalg.solve(gram, features.mT @ answers.double()).view(heads, dim, dim).float()
