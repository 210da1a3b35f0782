"""Table 1: Crammed BERT with 16 layers of 12 heads, and with 10 layers of 24: pretraining here, GLUE in `table1_glue`.

    manyheads run table1 --scale smoke     a toy of width 48 on the embedded stories
    manyheads run table1 --scale small     half the width on Wikipedia, on equal tokens and on equal seconds, 3 seeds
    manyheads run table1 --scale paper     the audited models, a day of one GPU each, and on equal tokens

By its count the lean model has 24 heads of 32: 84,182,017 parameters, to the integer those of `depth_only`, 10 layers
of 12 heads of 64, which the paper never reports. `fixed` has 24 heads of 64 and 107.8 M. The original's budget is
wall-clock time, in which a shallower model sees more tokens: both bases are run. small and paper need
`shards:wiki_bert`. At paper scale the batch grows over the first 60 % of the budget, as the original's does; below it
is constant."""

from __future__ import annotations

from typing import Any

from manyheads.arch.controls import depth_only, fixed, heads_only
from manyheads.arch.families import crammed_bert
from manyheads.arch.redesign import redesign
from manyheads.paper.audit import likely
from manyheads.paper.rows import BY_ID
from manyheads.spec.arch import Arch
from manyheads.spec.experiment import Arm, Comparison, Experiment, Setting
from manyheads.spec.parts import Masked, Norm

IDS = 30_522
# fmt: off
CRAMMED: dict[str, Any] = {
    "batch": 512, "basis": {"kind": "seconds", "amount": 86_400}, "lr": 1e-3, "betas": [0.9, 0.98], "eps": 1e-12,
    "schedule": {"kind": "triangle", "warmup": 0.75, "start": 0.25}, "weight_decay": 0.01, "clip": 0.5, "accumulate": 1,
    "evaluate_every": 0.05, "checkpoint_every": 0.02, "probe_every": 0.1, "probe_samples": 32,
}
# fmt: on
PAPER: dict[str, Any] = CRAMMED | {"batch": 8192, "accumulate": 64, "ramp": 0.6}
SMALL: dict[str, Any] = CRAMMED | {"evaluate_every": 0.1, "probe_every": 0.1, "checkpoint_every": 0.1}
SMOKE: dict[str, Any] = SMALL | {
    "batch": 8,
    "log_every": 10,
    "evaluate_every": 0.5,
    "probe_every": 0.5,
    "probe_samples": 2,
    "checkpoint_every": 0,
}
# fmt: off
TASKS: dict[str, dict[str, Any]] = {
    "smoke": {"is": "MaskedLanguage", "data": "tinystories", "tokens": 32, "test_limit": 32},
    "small": {"is": "MaskedLanguage", "data": "shards:wiki_bert", "tokens": 128, "vocab": IDS, "protect": False,
              "order": "given", "test_limit": 2000},
    "paper": {"is": "MaskedLanguage", "data": "shards:wiki_bert", "tokens": 128, "vocab": IDS, "protect": False,
              "order": "given"},
}
# fmt: on
TOKENS = {"smoke": 30 * 8 * 32, "small": 131e6, "paper": 10e9}
SECONDS = {"smoke": 0.5, "small": 240.0, "paper": 86_400.0}


def models(scale: str) -> tuple[Arch, Arch]:
    """Original and lean: as audited, at half the width with as many layers and heads, or a toy."""
    if scale == "paper":
        return likely(BY_ID["crammed_bert/original"]).arch, likely(BY_ID["crammed_bert/lean"]).arch
    norm = Masked(norm=Norm(eps=1e-12))
    if scale == "small":
        half = crammed_bert(384, 16, 12, 32, 768, vocab=IDS, head=norm)
        return half, redesign(half, depth=10, heads=24, policy="split")
    toy = crammed_bert(48, 5, 3, 16, 48, vocab=2048, tokens=32, head=norm)
    return toy, redesign(toy, depth=3, heads=6, policy="split")


def arms(scale: str) -> tuple[Arm, ...]:
    """16x12x64, 10x24x32, 10x24x64, 10x12x64, and 16x24x32."""
    original, lean = models(scale)
    return (
        Arm("original", original, "16 layers of 12 heads"),
        Arm("lean", lean, "10 layers of 24 heads, inner kept: as counted"),
        Arm("fixed", fixed(original, lean).arch, "10 layers of 24 heads, head_dim kept: as the text has it"),
        Arm("depth_only", depth_only(original, lean).arch, "10 layers of 12 heads: lean's parameters, to the integer"),
        Arm("heads_only", heads_only(original, lean).arch, "16 layers of 24 heads, inner kept"),
    )


def bases(scale: str) -> dict[str, dict[str, Any]]:
    """The recipe on equal tokens and on equal seconds."""
    recipe = {"smoke": SMOKE, "small": SMALL, "paper": PAPER}[scale]
    return {
        "tokens": recipe | {"basis": {"kind": "tokens", "amount": TOKENS[scale]}},
        "seconds": recipe | {"basis": {"kind": "seconds", "amount": SECONDS[scale]}},
    }


TABLE1 = Experiment(
    name="table1",
    title="Crammed BERT",
    question="Does Crammed BERT with 10 layers of 24 heads do as well as 16 of 12, on equal time and on equal tokens?",
    settings={
        scale: Setting(arms(scale), (0,) if scale == "smoke" else (0, 1, 2), TASKS[scale], bases(scale))
        for scale in TASKS
    },
    comparisons=(
        Comparison("lean", "original", "no_loss", margin=0.02, claim="L12"),
        Comparison("lean", "depth_only", "less", claim="M1"),
        Comparison("fixed", "lean", "differ", claim="M2"),
        Comparison("heads_only", "original", "less"),
        Comparison("lean", "depth_only", "less", metric="log_kappa"),
    ),
)
