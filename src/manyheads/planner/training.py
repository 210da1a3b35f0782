"""What training a design from scratch is estimated to cost: its operations an example times the usual recipe's
examples."""

from __future__ import annotations

from dataclasses import dataclass

from manyheads.arch.count import params
from manyheads.spec.arch import Arch
from manyheads.spec.parts import Masked, Token
from manyheads.spec.recipe import IMAGENET_IMAGES

from .use import Use

EPOCHS = 300
TOKENS_PER_PARAMETER = 20
RATE = 300e12  # operations a second that one current GPU sustains in bf16, as the assumption says


@dataclass(frozen=True)
class Training:
    """Operations of training from scratch on `examples`, and hours of one GPU at the stated rate. `assumption` says
    where both come from."""

    examples: float
    flops: float
    gpu_hours: float
    assumption: str


def usual_examples(arch: Arch) -> tuple[float, str]:
    """Examples (images, sequences) that the family's usual recipe trains on, and which recipe that is.

    Counted for the original, so that a redesign is costed on the same data."""
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
    """Cost of training `arch` on what its original's usual recipe trains on."""
    if use.examples is not None:
        examples, recipe = use.examples, f"{use.examples:,.0f} examples, as stated"
    else:
        examples, recipe = usual_examples(original)
    flops = 3 * use.costs(arch, ("flops",))["flops"] * examples
    assumption = f"{recipe}; 3 forwards an example; {RATE / 1e12:.0f} TFLOP/s sustained on one GPU"
    return Training(examples, float(flops), flops / RATE / 3600, assumption)
