"""Table 2: GPT-2 on TinyStories, 12 layers of 12 heads against 4 of 16, and the arms that the table lacks.

    manyheads run table2 --scale smoke     a toy of width 48 on the embedded stories
    manyheads run table2 --scale small     the paper's models, trained properly: real validation text, warm-up, 3 seeds
    manyheads run table2 --scale paper     the same models in the original repository's setting (16.4 M tokens, float32)

By its count the lean model has 16 heads of 32 (inner 512, where 512 // 12 = 42 gave the original 504): `lean` is that
one, `fixed` has 16 heads of 42, `depth_only` 12 of 42 in 4 layers, `heads_only` 16 of 32 in 12. small and paper need
`shards:tinystories` and `shards:tinystories_lines`. Printed: 2.47 and 2.41, one seed, on 12,000 stories of which we
hold 8,540: losses compare between arms and not with those."""

from __future__ import annotations

from dataclasses import replace

from manyheads.arch.controls import depth_only, fixed, heads_only
from manyheads.arch.families import stories
from manyheads.arch.redesign import redesign
from manyheads.paper.audit import likely
from manyheads.paper.rows import BY_ID
from manyheads.spec.arch import Arch
from manyheads.spec.experiment import Arm, Comparison, Experiment, Loses, Setting
from manyheads.spec.recipe import Basis
from manyheads.spec.text import LanguageModel

from .recipes import stories_proper, stories_proper_task, stories_repository, stories_repository_task
from .scales import BRIEF, SEEDS

PROPER = replace(stories_proper(), probe_every=0.1, probe_samples=32)
REPOSITORY = replace(stories_repository(), probe_every=500, probe_samples=32)
SMOKE = replace(PROPER, **BRIEF | {"batch": 8, "basis": Basis("steps", 30), "lr": 3e-3, "probe_samples": 2})
TASKS = {
    "smoke": LanguageModel("tinystories", tokens=32, test_limit=32),
    "small": stories_proper_task(),
    "paper": stories_repository_task(),
}


def models(scale: str) -> tuple[Arch, Arch]:
    """Original and lean as audited; at smoke 6 layers of 3 heads of 16 and 2 of 4 of 12."""
    if scale == "smoke":
        toy = stories(48, 6, 3, 16, 96, vocab=2048, tokens=32)
        return toy, redesign(toy, depth=2, heads=4, policy="split")
    return likely(BY_ID["gpt2/original"]).arch, likely(BY_ID["gpt2/lean"]).arch


def arms(scale: str) -> tuple[Arm, ...]:
    """Original, lean, and what takes heads, depth and policy apart."""
    original, lean = models(scale)
    return (
        Arm("original", original, "12 layers of 12 heads, as counted"),
        Arm("lean", lean, "a third of the layers, more and thinner heads, as counted"),
        Arm("fixed", fixed(original, lean).arch, "lean's depth and heads at the original's head_dim"),
        Arm("depth_only", depth_only(original, lean).arch, "lean's depth, the original's heads"),
        Arm("heads_only", heads_only(original, lean).arch, "the original's depth, lean's heads"),
    )


DEPTH_LOSES = (Loses("depth_only", "original"),)
TABLE2 = Experiment(
    name="table2",
    title="GPT-2 on TinyStories",
    question="Does GPT-2 with 4 layers of 16 heads beat 12 layers of 12, and is it the heads?",
    settings={
        "smoke": Setting(arms("smoke"), SEEDS["smoke"], TASKS["smoke"], {"steps": SMOKE}),
        "small": Setting(arms("small"), SEEDS["small"], TASKS["small"], {"steps": PROPER}),
        "paper": Setting(arms("paper"), (0, 1, 2, 3, 4), TASKS["paper"], {"steps": REPOSITORY}),
    },
    comparisons=(
        Comparison(
            "lean", "original", "better", claim="L13", metric="best", printed=-0.06, primary=True, controls=DEPTH_LOSES
        ),
        Comparison("lean", "original", "better"),
        Comparison("lean", "depth_only", "better", claim="M1", metric="best", controls=DEPTH_LOSES),
        Comparison("fixed", "lean", "differ", margin=0.005, claim="M2", metric="best"),
        Comparison("heads_only", "original", "better", metric="best"),
        Comparison("lean", "original", "less", metric="log_kappa"),
    ),
    printed={"original": 2.47, "lean": 2.41},
)
