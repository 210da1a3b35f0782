"""Warnings about cost: where a design goes beyond what has been tried, or saves less than it seems to."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from manyheads.arch.thresholds import KERNELS, TRIED_DEPTH, TRIED_HEADS, TRIED_MLP
from manyheads.spec.parts import Softmax, Token, Window

from .design_facts import Facts, StageFacts
from .rules import Bools, Rule, Said, StageRule, WholeRule, never

VOCABULARY = 0.5  # of the parameters
COSTS = {"flops": "forward FLOPs", "memory": "training memory", "kv_cache": "KV cache"}


def _steps(facts: Facts) -> dict[str, tuple[Bools, NDArray[np.float64]]]:
    """By how much depth, heads and MLP change, and whether that is farther than any redesign tried."""
    depth = facts.layers / facts.layers0
    heads = np.max([stage.heads / stage.heads0 for stage in facts.stages], axis=0)
    mlp = np.min([stage.mlp / stage.mlp0 if stage.mlp0 else np.ones(len(depth)) for stage in facts.stages], axis=0)
    return {
        "of the layers": (depth < TRIED_DEPTH - 1e-9, depth),
        "times the heads": (heads > TRIED_HEADS, heads),
        "of the MLP": (mlp < TRIED_MLP, mlp),
    }


def _untried(facts: Facts) -> Bools:
    return np.asarray(np.any([far for far, _ in _steps(facts).values()], axis=0))


def _untried_words(facts: Facts, i: int) -> Said:
    steps = {what: float(value[i]) for what, (far, value) in _steps(facts).items() if far[i]}
    changes = " and ".join(f"{value:.2f} {what}" for what, value in steps.items())
    tried = "a third of the layers, twice the heads, half the MLP"
    words = f"{changes}: farther than any redesign of the first paper ({tried})"
    return words, steps


def _kernel(stage: StageFacts) -> Bools:
    if not any(isinstance(mix, Softmax | Window) for mix in stage.mixes):
        return never(len(stage.depth))
    return np.asarray(~np.isin(stage.head_dim, KERNELS) & stage.changed)


def _kernel_words(stage: StageFacts, i: int) -> Said:
    dim = int(stage.head_dim[i])
    padded = next((size for size in KERNELS if size >= dim), 0)
    how = f"fused attention kernels compute it as {padded}" if padded else "fused attention kernels stop at 256"
    odd = "" if dim % 8 == 0 else ", after padding it to a multiple of 8"
    return f"head_dim {dim}: {how}{odd}", {"head_dim": dim, "padded": padded}


def _share(facts: Facts) -> NDArray[np.float64]:
    """Share of the parameters that the vocabulary holds."""
    beside = facts.params.embedding + facts.params.head
    return np.asarray(beside / facts.params.total + np.zeros(len(facts.layers)))


def _vocabulary(facts: Facts) -> Bools:
    return (
        np.asarray(_share(facts) > VOCABULARY) if isinstance(facts.original.embed, Token) else never(len(facts.layers))
    )


def _vocabulary_words(facts: Facts, i: int) -> Said:
    share, total = float(_share(facts)[i]), float(facts.ratio("params")[i])
    left = float((facts.params.non_embedding + np.zeros(len(facts.layers)))[i] / facts.params0.non_embedding)
    words = (
        f"{share:.0%} of the parameters are the vocabulary's, which no redesign touches: {total:.2f} of the total "
        f"means {left:.2f} of the layers"
    )
    return words, {"vocabulary_share": share, "total_ratio": total, "layers_ratio": left}


def _dearer(facts: Facts) -> Bools:
    return np.asarray(np.any([facts.ratio(kind) > 1 for kind in COSTS], axis=0))


def _dearer_words(facts: Facts, i: int) -> Said:
    over = {kind: float(facts.ratio(kind)[i]) for kind in COSTS if facts.ratio(kind)[i] > 1}
    return "costs more than the original: " + ", ".join(f"{COSTS[kind]} {x:.2f}x" for kind, x in over.items()), {**over}


def _long(facts: Facts) -> Bools:
    """Where sequences are long and there is as much attention between tokens as before."""
    stage = facts.stages[0]
    if len(facts.stages) > 1 or not isinstance(stage.mixes[0], Softmax) or stage.sites[0].rows <= 2 * stage.width:
        return never(len(facts.layers))
    return np.asarray(stage.depth * stage.inner >= stage.depth0 * stage.inner0)


def _long_words(facts: Facts, i: int) -> Said:
    stage = facts.stages[0]
    share = float(stage.depth[i] * stage.inner[i] / (stage.depth0 * stage.inner0))
    words = (
        f"{stage.sites[0].rows} tokens are long for width {stage.width}: attention between tokens, depth x inner, is "
        f"what grows with length, and {share:.2f} of that is left"
    )
    return words, {"attention_ratio": share}


RULES: tuple[Rule, ...] = (
    WholeRule("untried", "caution", _untried, _untried_words),
    StageRule("kernel", "caution", _kernel, _kernel_words),
    WholeRule("vocabulary", "caution", _vocabulary, _vocabulary_words),
    WholeRule("dearer", "caution", _dearer, _dearer_words),
    WholeRule("long_context", "caution", _long, _long_words),
)
