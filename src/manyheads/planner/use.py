"""How the model will be used: sequence length or image size, batch and precision of training, what lies outside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from manyheads.arch.count import forward_flops, kv_bytes, params, training_bytes
from manyheads.arch.quantities import Precision
from manyheads.arch.redesign import at_image, redesign
from manyheads.spec.arch import Arch, Sketch, editable
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Points, Token

Num = Any  # an int or an array


@dataclass(frozen=True)
class Rest:
    """What a module has beside the layers that were read: it stays as it is, and counts."""

    params: int = 0
    flops: int = 0


@dataclass(frozen=True)
class Use:
    """Costs are counted as the model will run: `batch`, `precision` and `fused` attention are of a training step."""

    tokens: int | None = None
    image: int | None = None
    batch: int = 32
    precision: Precision = "amp"
    fused: bool = True
    rest: Rest = Rest()
    examples: float | None = None  # to train on; None: as many as the family's usual recipe

    def __post_init__(self) -> None:
        if self.precision not in ("fp32", "amp", "bf16"):
            raise UserError(f"precision is {self.precision!r}; write 'fp32', 'amp' or 'bf16'")
        for name in ("batch", "tokens", "image"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise UserError(f"{name} is {value!r}; write a whole number from 1 up")

    def of(self, arch: Arch) -> Arch:
        """`arch` at this sequence length or image size."""
        if self.image is not None:
            arch = at_image(arch, self.image)
        return arch if self.tokens is None else redesign(arch, tokens=self.tokens)

    def costs(self, arch: Arch | Sketch, kinds: tuple[str, ...]) -> dict[str, Num]:
        """What `arch` costs, by kind of budget: one number each, or arrays for a sketch of many designs. `latency` is
        in units of layers and operations: see `latency_share`."""
        found: dict[str, Num] = {}
        for kind in kinds:
            match kind:
                case "params":
                    found[kind] = params(arch).total + self.rest.params
                case "flops":
                    found[kind] = forward_flops(arch) + self.rest.flops
                case "memory":
                    beside = self.rest.params * (18 if self.precision == "amp" else 16)
                    found[kind] = training_bytes(arch, self.batch, self.precision, self.fused) + beside
                case "kv_cache":
                    found[kind] = kv_bytes(arch) * length(arch)
        return found

    def describe(self, arch: Arch) -> str:
        """The setting in words."""
        what = f"{length(arch)} tokens" if isinstance(arch.embed, Token | Points) else f"images of {arch.embed.image}"
        kept = "fused attention" if self.fused else "attention maps kept"
        return f"{what}; memory of a training step at batch {self.batch}, {self.precision}, {kept}"


def length(arch: Arch | Sketch) -> int:
    """Tokens of the first stage."""
    return int(arch.stages[0].tokens)


def layers(arch: Arch | Sketch) -> Num:
    """Attention layers that a redesign may cut, all stages together."""
    return sum(arch.stages[i].depth for i in editable(arch))


def latency_share(arch: Arch | Sketch, original: Arch, use: Use) -> Num:
    """Estimated batch-1 latency over the original's: the share of layers (what counts when launching kernels takes the
    time) or of operations (when computing does), whichever is larger."""
    import numpy as np

    flops, before = use.costs(arch, ("flops",))["flops"], use.costs(original, ("flops",))["flops"]
    return np.maximum(layers(arch) / layers(original), flops / before)
