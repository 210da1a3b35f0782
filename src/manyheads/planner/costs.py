"""What a design costs as it will be used (`Use`: sequence length or image size, batch and precision of training), and
what training it from scratch is estimated to cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from manyheads.arch.count import forward_flops, kv_bytes, params, training_bytes
from manyheads.arch.quantities import Precision
from manyheads.arch.redesign import at_image, redesign
from manyheads.spec.arch import Arch, Sketch, editable
from manyheads.spec.errors import UserError
from manyheads.spec.field_checks import whole
from manyheads.spec.parts import Masked, Points, Token
from manyheads.spec.recipe import IMAGENET_IMAGES

Num = Any  # an int or an array


@dataclass(frozen=True)
class Rest:
    """What a module has beside the layers that were read. It stays as it is and is part of every cost."""

    params: int = 0
    flops: int = 0


@dataclass(frozen=True)
class Use:
    """How the model will run. `tokens` or `image` set its length or image size; `batch`, `precision` and `fused`
    attention are those of a training step, whose memory is counted."""

    tokens: int | None = None
    image: int | None = None
    batch: int = 32
    precision: Precision = "amp"
    fused: bool = True
    rest: Rest = Rest()
    examples: float | None = None  # that training from scratch sees; None: as many as in the family's usual recipe

    def __post_init__(self) -> None:
        if self.precision not in ("fp32", "amp", "bf16"):
            raise UserError(f"precision is {self.precision!r}; write 'fp32', 'amp' or 'bf16'")
        for name in ("batch", "tokens", "image"):
            value = getattr(self, name)
            if value is not None or name == "batch":
                whole(name, value)

    def of(self, arch: Arch) -> Arch:
        """`arch` at this sequence length or image size."""
        if self.image is not None:
            arch = at_image(arch, self.image)
        return arch if self.tokens is None else redesign(arch, tokens=self.tokens)

    def costs(self, arch: Arch | Sketch, kinds: tuple[str, ...]) -> dict[str, Num]:
        """What `arch` costs by kind of budget: one number each, or arrays for a sketch of many designs. For latency see
        `latency_share`."""
        costs: dict[str, Num] = {}
        for kind in kinds:
            match kind:
                case "params":
                    costs[kind] = params(arch).total + self.rest.params
                case "flops":
                    costs[kind] = forward_flops(arch) + self.rest.flops
                case "memory":
                    beside = self.rest.params * (18 if self.precision == "amp" else 16)
                    costs[kind] = training_bytes(arch, self.batch, self.precision, self.fused) + beside
                case "kv_cache":
                    costs[kind] = kv_bytes(arch) * length(arch)
        return costs

    def describe(self, arch: Arch) -> str:
        """The setting in words."""
        what = f"{length(arch)} tokens" if isinstance(arch.embed, Token | Points) else f"images of {arch.embed.image}"
        attention = "fused attention" if self.fused else "attention maps kept"
        return f"{what}; memory of a training step at batch {self.batch}, {self.precision}, {attention}"


def length(arch: Arch | Sketch) -> int:
    """Tokens of the first stage."""
    return int(arch.stages[0].tokens)


def layers(arch: Arch | Sketch) -> Num:
    """Attention layers that a redesign may cut, over all stages."""
    return sum(arch.stages[i].depth for i in editable(arch))


def latency_share(arch: Arch | Sketch, original: Arch, use: Use) -> Num:
    """Estimated batch-1 latency over the original's: the share of layers or the share of operations, whichever is
    larger.

    Layers count where launching kernels takes the time, operations where computing does."""
    import numpy as np

    flops, before = use.costs(arch, ("flops",))["flops"], use.costs(original, ("flops",))["flops"]
    return np.maximum(layers(arch) / layers(original), flops / before)


EPOCHS = 300
TOKENS_PER_PARAMETER = 20
RATE = 300e12  # operations a second that one current GPU is assumed to sustain in bf16


@dataclass(frozen=True)
class Training:
    """Operations of training from scratch on `examples`, and hours of one GPU for them. `assumption` states the recipe
    and the rate behind both."""

    examples: float
    flops: float
    gpu_hours: float
    assumption: str


def usual_examples(arch: Arch) -> tuple[float, str]:
    """Examples (images, sequences) that the family's usual recipe trains on, and what recipe that is.

    `arch` is the original, so that a redesign is costed on the same data."""
    tokens = arch.stages[0].tokens
    match arch.family:
        case "crammed_bert":
            return 85e6, "85 M sequences, all that one day of cramming (2212.14034) can read"
        case "bert":
            return 256e6, "1 M steps of 256 sequences (1810.04805)"
        case "nystromformer" if isinstance(arch.head, Masked):
            return 256e6, "1 M steps of 256 sequences, as BERT"
        case "nystromformer":
            return 30_000 * 32, "30,000 steps of 32 sequences (LRA's tasks take 5,000 to 62,400)"
        case "gpt2" if arch.dialect == "stories":
            return 2_000 * 128, "2,000 steps of 128 sequences, the TinyStories repository's"
        case "nearest_neighbor":
            return 1e5 * 256, "100,000 batches of 256 (2407.16153)"
        case "stack":
            return 1e6, "1,000,000 examples, for want of a usual recipe (state `examples`)"
    if isinstance(arch.embed, Token):
        count = params(arch).total
        return TOKENS_PER_PARAMETER * count / tokens, f"{TOKENS_PER_PARAMETER} tokens a parameter of the original"
    return float(EPOCHS * IMAGENET_IMAGES), f"{EPOCHS} epochs of ImageNet-1k (Table 6 of 2505.20802)"


def training(arch: Arch, original: Arch, use: Use) -> Training:
    """Cost of training `arch` on the examples of its original's usual recipe."""
    if use.examples is not None:
        examples, recipe = use.examples, f"{use.examples:,.0f} examples, as stated"
    else:
        examples, recipe = usual_examples(original)
    flops = 3 * use.costs(arch, ("flops",))["flops"] * examples
    assumption = f"{recipe}; 3 forwards an example; {RATE / 1e12:.0f} TFLOP/s sustained on one GPU"
    return Training(examples, float(flops), flops / RATE / 3600, assumption)
