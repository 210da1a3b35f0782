"""`HeadsKappa`: Theorem 3.2 and Lemma 3.3 of the first paper on drawn matrices, on initial attention, and by
formula."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Generator, Tensor

from manyheads.conditioning.probe import as_record, probe
from manyheads.conditioning.spectrum import spectrum
from manyheads.conditioning.theory import gaussian_edge, gaussian_log_kappa
from manyheads.data.randomness import key
from manyheads.models.build import build
from manyheads.spec.arch import Arch, attentions
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Points
from manyheads.spec.validate import between

from .measurement import Findings, Measurement

Entries = Literal["normal", "attention", "formula"]
NUMBERS = 2**23  # of the matrices held at once


@dataclass(frozen=True)
class HeadsKappa(Measurement):
    """kappa of `samples` matrices of concatenated heads, tokens x inner, in the shape of the model's first attention.

    `entries` are `normal`: independent, as the theorem assumes; `attention`: what that attention gives with initial
    weights for independent normal tokens; or there are none, and kappa is the theorem's `formula`, (sqrt inner + sqrt
    tokens) / (sqrt inner - sqrt tokens), its rank full. `deficient` is the share of matrices without full rank."""

    entries: Entries = "normal"
    samples: int = 32

    def __post_init__(self) -> None:
        if self.entries not in ("normal", "attention", "formula"):
            raise UserError(f"HeadsKappa.entries is {self.entries!r}; write normal, attention or formula")
        between("HeadsKappa.samples", self.samples, 1, whole=True)

    def check(self, arch: Arch) -> None:
        """Refuse a model that takes no points."""
        if not isinstance(arch.embed, Points):
            raise UserError(
                f"HeadsKappa draws tokens and a {arch.family} model reads {type(arch.embed).__name__} input; "
                "take nearest_neighbor"
            )

    def measure(self, arch: Arch, seed: int, device: torch.device) -> Findings:
        """kappa and its companions, as a probe would write them."""
        found = {"step": 0, "layer": 0, "kind": "softmax"} | getattr(self, f"_{self.entries}")(arch, seed, device)
        score = {
            "kappa": found["kappa"],
            "mean_kappa": found["mean_kappa"],
            "deficient": found["deficient"],
            "predicted": math.exp(found["gaussian_log_kappa"]),
        }
        return Findings(score, ("kappa", "down"), [found])

    def _normal(self, arch: Arch, seed: int, device: torch.device) -> dict[str, Any]:
        logs = torch.cat([spectrum(block).log_kappa.cpu() for block in self._drawn(arch, seed, device)])
        finite = logs[logs.isfinite()]
        middle = finite.mean().item()
        return _shape(arch) | {
            "log_kappa": middle,
            "kappa": math.exp(middle),
            "mean_kappa": finite.exp().mean().item(),
            "deficient": 1 - len(finite) / len(logs),
        }

    def _drawn(self, arch: Arch, seed: int, device: torch.device) -> Iterator[Tensor]:
        tokens, inner = arch.stages[0].tokens, attentions(arch.stages[0])[0].inner
        generator, size = Generator(device).manual_seed(key(seed, "heads")), max(1, NUMBERS // (tokens * inner))
        for first in range(0, self.samples, size):
            rows = min(size, self.samples - first)
            yield torch.randn(rows, tokens, inner, generator=generator, device=device, dtype=torch.float64)

    def _attention(self, arch: Arch, seed: int, device: torch.device) -> dict[str, Any]:
        assert isinstance(arch.embed, Points)
        model = build(arch, device="cpu", seed=seed).to(device)
        tokens = torch.randn(
            self.samples, arch.stages[0].tokens, arch.embed.dim, generator=Generator().manual_seed(key(seed, "tokens"))
        )
        return as_record(probe(model, tokens.to(device))[0])

    def _formula(self, arch: Arch, seed: int, device: torch.device) -> dict[str, Any]:
        shape = _shape(arch)
        kappa = float(gaussian_edge(shape["tokens"], shape["inner"]))
        return shape | {"log_kappa": math.log(kappa), "kappa": kappa, "mean_kappa": kappa, "deficient": 0.0}


def _shape(arch: Arch) -> dict[str, Any]:
    op, tokens = attentions(arch.stages[0])[0], arch.stages[0].tokens
    return {
        "tokens": tokens,
        "heads": op.heads,
        "head_dim": op.head_dim,
        "inner": op.inner,
        "gaussian_log_kappa": gaussian_log_kappa(tokens, op.inner).mean,
    }
