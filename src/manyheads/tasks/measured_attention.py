"""Measurements of attention without training: kappa, the condition number of the concatenated heads, for random
matrices and for initial weights (2505.20802), and the errors of constructed heads (2407.16153)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn

from manyheads.conditioning.probe import as_record, probe
from manyheads.conditioning.spectrum import spectrum
from manyheads.conditioning.theory import gaussian_edge, gaussian_log_kappa, majority_vote
from manyheads.data.randomness import key
from manyheads.models.build import build
from manyheads.models.constructions import FullValueAttention, MajorityVote, exact_layer
from manyheads.spec.arch import Arch, attentions
from manyheads.spec.measurements import HeadsKappa, WrittenDown
from manyheads.spec.parts import Points

from .measurements import Findings, measure
from .points import SPAN, Neighbors
from .task import check, wrong_input

NUMBERS = 2**23  # entries of the matrices in memory at once
ROWS = 1024  # samples in memory at once, each with what every head attends to
FITTED = 16  # samples for each fitted number: overfitting then costs about 6 % of the error


@check.register(HeadsKappa)
def _(task: HeadsKappa, arch: Arch) -> None:
    """Refuse a model that does not take points."""
    if not isinstance(arch.embed, Points):
        raise wrong_input("HeadsKappa draws tokens", arch, "nearest_neighbor")


@measure.register(HeadsKappa)
def _(task: HeadsKappa, arch: Arch, seed: int, device: torch.device) -> Findings:
    """kappa and related numbers, in the form of a probe's record."""
    record: dict[str, Any] = {"step": 0, "layer": 0, "kind": "softmax"} | ENTRIES[task.entries](
        task, arch, seed, device
    )
    score = {
        "kappa": record["kappa"],
        "mean_kappa": record["mean_kappa"],
        "deficient": record["deficient"],
        "predicted": math.exp(record["gaussian_log_kappa"]),
    }
    return Findings(score, ("kappa", "down"), [record])


def _normal(task: HeadsKappa, arch: Arch, seed: int, device: torch.device) -> dict[str, Any]:
    logs = torch.cat([spectrum(block).log_kappa.cpu() for block in _matrices(task, arch, seed, device)])
    finite = logs[logs.isfinite()]
    middle = finite.mean().item()
    return _shape(arch) | {
        "log_kappa": middle,
        "kappa": math.exp(middle),
        "mean_kappa": finite.exp().mean().item(),
        "deficient": 1 - len(finite) / len(logs),
    }


def _matrices(task: HeadsKappa, arch: Arch, seed: int, device: torch.device) -> Iterator[Tensor]:
    tokens, inner = arch.stages[0].tokens, attentions(arch.stages[0])[0].inner
    generator, size = Generator(device).manual_seed(key(seed, "heads")), max(1, NUMBERS // (tokens * inner))
    for first in range(0, task.samples, size):
        rows = min(size, task.samples - first)
        yield torch.randn(rows, tokens, inner, generator=generator, device=device, dtype=torch.float64)


def _attention(task: HeadsKappa, arch: Arch, seed: int, device: torch.device) -> dict[str, Any]:
    assert isinstance(arch.embed, Points)
    model = build(arch, device="cpu", seed=seed).to(device)
    tokens = torch.randn(
        task.samples, arch.stages[0].tokens, arch.embed.dim, generator=Generator().manual_seed(key(seed, "tokens"))
    )
    return as_record(probe(model, tokens.to(device))[0])


def _formula(task: HeadsKappa, arch: Arch, seed: int, device: torch.device) -> dict[str, Any]:
    shape = _shape(arch)
    kappa = float(gaussian_edge(shape["tokens"], shape["inner"]))
    return shape | {"log_kappa": math.log(kappa), "kappa": kappa, "mean_kappa": kappa, "deficient": 0.0}


Entries = Callable[[HeadsKappa, Arch, int, torch.device], dict[str, Any]]
ENTRIES: dict[str, Entries] = {"normal": _normal, "attention": _attention, "formula": _formula}


def _shape(arch: Arch) -> dict[str, Any]:
    op, tokens = attentions(arch.stages[0])[0], arch.stages[0].tokens
    return {
        "tokens": tokens,
        "heads": op.heads,
        "head_dim": op.head_dim,
        "inner": op.inner,
        "gaussian_log_kappa": gaussian_log_kappa(tokens, op.inner).mean,
    }


# ------------------------------------------------------------------------------------------- constructed heads
@check.register(WrittenDown)
def _(task: WrittenDown, arch: Arch) -> None:
    """Refuse a model whose points do not fit."""
    if not isinstance(arch.embed, Points):
        raise wrong_input("WrittenDown gives points", arch, "nearest_neighbor")
    check(task.target(arch.embed.dim), arch)


@measure.register(WrittenDown)
def _(task: WrittenDown, arch: Arch, seed: int, device: torch.device) -> Findings:
    """The error, and how often the output has its largest inner product with the right point."""
    assert isinstance(arch.embed, Points)
    dim, op = arch.embed.dim, attentions(arch.stages[0])[0]
    target = Neighbors(task.target(dim))
    sample = target.draw(Generator(device).manual_seed(key(seed, "questions")), task.samples)
    points = sample[0][:, : task.tokens]
    middle = target.error(points.mean(1, keepdim=True), *sample).mean().item()  # always the mean of all points
    if task.network == "law":
        loss = 0.0 if op.head_dim == dim else float(majority_vote(dim, op.heads))
        return Findings({"loss": loss, "accuracy": 1 - loss / 2}, ("loss", "down"), trivial={"loss": middle})
    match task.network:
        case "exact":
            answer: nn.Module = exact_layer(dim).to(device)
        case "vote":
            answer = MajorityVote(dim, op.heads, key(seed, "heads")).to(device)
        case _:
            answer = _fit_values(task, target, op.heads, op.head_dim, seed, device)
    with torch.no_grad():
        output = torch.cat([answer(part) for part in sample[0].split(ROWS)])
    scores = {
        "loss": target.error(output, *sample).mean().item(),
        "accuracy": target.judge(output, *sample)["accuracy"].mean().item(),
    }
    return Findings(scores, ("loss", "down"), trivial={"loss": middle})


@torch.no_grad()
def _fit_values(
    task: WrittenDown, target: Neighbors, heads: int, rank: int, seed: int, device: torch.device
) -> FullValueAttention:
    """Random heads whose values are fitted to samples other than the questions."""
    draws = Generator(device).manual_seed(key(seed, "heads"))
    layer = FullValueAttention(target.task.dim, heads, rank, separate=True, positions=task.tokens, hard=True).to(device)
    directions = torch.linalg.qr(torch.randn(heads, target.task.dim, rank, generator=draws, device=device)).Q
    layer.q.copy_(directions)
    layer.k.copy_(directions)
    assert layer.bias is not None
    if task.biases:
        layer.bias[:, 0] = torch.linspace(-SPAN, SPAN, heads, device=device) * (2 * rank / target.task.dim) ** 0.5
    size = max(task.samples, FITTED * heads * target.task.dim)
    points, answers = target.draw(Generator(device).manual_seed(key(seed, "fitted")), size)
    layer.v.copy_(_values(layer, points, answers[:, 0]))
    return layer


def _values(
    layer: FullValueAttention, points: Float[Tensor, "rows given dim"], answers: Float[Tensor, "rows dim"]
) -> Float[Tensor, "heads dim dim"]:
    """The value matrices that fit the answers best, by least squares over the points that the heads attend to."""
    heads, dim = layer.v.shape[:2]
    gram = torch.zeros(heads * dim, heads * dim, dtype=torch.float64, device=points.device)
    along = torch.zeros(heads * dim, dim, dtype=torch.float64, device=points.device)
    for part, answer in zip(points.split(ROWS), answers.split(ROWS), strict=True):
        features = _attended(layer, part)
        gram += features.mT @ features
        along += features.mT @ answer.double()
    gram.diagonal().add_(
        1e-6 * gram.diagonal().mean()
    )  # heads that always attend to the same point would make it singular
    return torch.linalg.solve(gram, along).view(heads, dim, dim).float()


def _attended(
    layer: FullValueAttention, points: Float[Tensor, "rows given dim"]
) -> Float[Tensor, "rows heads_times_dim"]:
    """The points that the heads attend to, side by side."""
    candidates, query = points[:, :-1].double(), points[:, -1].double()
    q, k = (
        torch.einsum("...w,hwr->...hr", side, weight.double())
        for side, weight in ((query, layer.q), (candidates, layer.k))
    )
    scores = torch.einsum("bhr,bnhr->bhn", q, k)
    assert layer.bias is not None
    choices = (scores + layer.bias.double()).argmax(-1)  # rows, heads
    return candidates.take_along_dim(choices.flatten(1)[..., None], dim=1).flatten(1)
