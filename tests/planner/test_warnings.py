"""Each warning comes where it should, with its numbers, and not elsewhere; reasons say what the numbers say."""

from __future__ import annotations

import math

import pytest

from manyheads.arch import families as f
from manyheads.arch import zoo
from manyheads.arch.redesign import redesign
from manyheads.conditioning.theory import gaussian_log_kappa
from manyheads.planner import Budget, Design, plan
from manyheads.planner.reasons_and_warnings import RULES
from manyheads.spec.arch import Arch

VIT = zoo.get("vit_b")
GPT = zoo.get("gpt2")
LLAMA = zoo.get("llama_1b")


def judged(original: Arch, tokens: int | None = None, **edits) -> Design:
    """A redesign under the planner's eyes."""
    return plan(original, Budget(params=10.0), tokens=tokens).judge(redesign(original, **edits))


# fmt: off
CASES: dict[str, tuple[Design, set[str]]] = {
    "the paper's": (judged(VIT, depth=7, heads=16, mlp_dim=1536), set()),
    "at the peak": (judged(GPT, depth=6, heads=16), {"peak"}),
    "before the peak": (judged(GPT, depth=8, heads=13), {"peak", "narrow"}),
    "far before it": (judged(GPT, depth=8, heads=10), {"narrow"}),
    "split": (judged(VIT, depth=11, heads=16, policy="split"), {"split", "shallow_rank", "kernel"}),
    "split at full depth": (judged(VIT, heads=24, policy="split"), {"split"}),
    "thin heads": (judged(VIT, heads=32, policy="split"), {"split", "thin", "kernel", "untried"}),
    "thinner yet": (judged(VIT, heads=96, policy="split"), {"split", "rank", "kernel", "untried"}),
    "too shallow": (judged(VIT, depth=3, heads=16), {"untried"}),
    "too small an MLP": (judged(VIT, depth=8, heads=16, mlp_dim=1024), {"untried"}),
    "heads alone": (judged(VIT, heads=16), {"dearer"}),
    "long context": (judged(LLAMA, tokens=65536, depth=15, heads=64), {"narrow", "grouped", "long_context", "dearer"}),
    "shared keys": (judged(GPT, tokens=256, depth=8, heads=16, kv_heads=4), {"grouped"}),
    "a vocabulary": (judged(GPT, tokens=256, depth=4, heads=16), {"vocabulary"}),
    "odd heads": (judged(VIT, depth=7, heads=16, head_dim=60), {"kernel", "shallow_rank"}),
    "across the peak": (judged(LLAMA, tokens=4096, depth=8, heads=96), {"worse", "grouped", "untried"}),
    "for nothing": (judged(f.vit(768, 12, 12, 64, 3072, image=32, patch=16), depth=8, heads=13), {"unchanged"}),
}
# fmt: on


@pytest.mark.parametrize("name", CASES)
def test_the_warnings_that_a_design_deserves(name: str) -> None:
    design, codes = CASES[name]
    assert set(design.codes) == codes


def test_every_rule_is_seen_above() -> None:
    """`coverage` needs a probe, and has its own test."""
    seen = {code for _, codes in CASES.values() for code in codes}
    assert seen == {rule.code for rule in RULES} - {"coverage"}


def test_serious_warnings_come_first() -> None:
    levels = [note.level for note in CASES["thinner yet"][0].warnings]
    assert levels == sorted(levels, key=lambda level: level != "serious")
    assert {"serious", "caution"} == set(levels)


def test_a_saving_that_is_mostly_the_vocabulary_is_told_in_layers() -> None:
    design = CASES["a vocabulary"][0]
    numbers = next(note.numbers for note in design.warnings if note.code == "vocabulary")
    layers = 4 * (4 * 768 * 1024 + 3 * 1024 + 768 + 2 * 768 * 3072 + 3072 + 768 + 4 * 768) + 2 * 768
    before = 12 * (4 * 768 * 768 + 4 * 768 + 2 * 768 * 3072 + 3072 + 768 + 4 * 768) + 2 * 768
    assert numbers["layers_ratio"] == pytest.approx(layers / before)
    assert numbers["vocabulary_share"] == pytest.approx((50257 + 1024) * 768 / design.costs["params"])


def test_reasons_are_the_same_things_about_every_design() -> None:
    design = CASES["the paper's"][0]
    assert [note.code for note in design.reasons] == [
        "depth",
        "heads",
        "place",
        "kappa",
        "rank",
        "shares",
        "long_context",
        "gain",
    ]
    numbers = {note.code: note.numbers for note in design.reasons}
    before, now = (math.exp(gaussian_log_kappa(197, inner).mean) for inner in (768, 1024))
    assert numbers["kappa"] == pytest.approx({"kappa": now, "before": before, "ratio": now / before})
    assert numbers["depth"]["ratio"] == 7 / 12
    assert numbers["place"] == {"inner_per_token": 1024 / 197, "before": 768 / 197}
    assert numbers["long_context"]["head_layers"] == 112
    assert numbers["long_context"]["attention_ratio"] == pytest.approx(7 * 16 / 144)
    assert numbers["gain"]["params"] == 7 * (4 * 768 * 64 + 3 * 64)
    assert numbers["gain"]["kappa_change"] < 0
    for note in design.reasons:
        assert note.level == "reason"
        assert note.words


def test_every_plan_says_what_training_would_cost() -> None:
    design = CASES["the paper's"][0]
    assert design.training.examples == 300 * 1_281_167
    assert design.training.flops == 3 * design.costs["flops"] * 300 * 1_281_167
    assert "ImageNet" in design.training.assumption
    stated = plan(VIT, Budget(params=0.5), examples=1e6).designs[0]
    assert stated.training.flops == 3 * stated.costs["flops"] * 1e6


@pytest.mark.parametrize("name", zoo.NAMES)
def test_every_model_of_the_zoo_can_be_planned(name: str) -> None:
    original = zoo.get(name)
    found = plan(original, Budget(params=1.0))
    assert found.designs or found.closest is not None
    for design in found.designs[:2]:
        assert design.reasons
        assert design.ratios["params"] <= 1.0
