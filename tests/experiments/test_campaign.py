"""The experiments of the campaign: arms are what their names say, rates are chosen where nothing is reported, and every
claim has the control that its verdict needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from manyheads.arch.controls import depths, head_dims, heads, inners, mlp_dims
from manyheads.arch.count import params
from manyheads.experiments.gpt_controls import FACTORS, NEAREST, RATES
from manyheads.experiments.registry import CAMPAIGN, EXPERIMENTS
from manyheads.models.build import build
from manyheads.spec.arch import Arch
from manyheads.spec.experiment import Comparison, specs
from manyheads.spec.text import LanguageModel


def archs(name: str, scale: str) -> dict[str, Arch]:
    """The models of an experiment by their arm's name."""
    return {arm.name: arm.arch for arm in EXPERIMENTS[name].setting(scale).arms}


def primary(name: str, claim: str) -> list[Comparison]:
    """The comparisons that decide a claim."""
    return [pair for pair in EXPERIMENTS[name].comparisons if pair.claim == claim and pair.primary]


@pytest.mark.parametrize("name", CAMPAIGN)
def test_first_and_last_models_have_the_counted_parameters_and_every_arm_a_note(name: str) -> None:
    for setting in EXPERIMENTS[name].settings.values():
        assert all(arm.note for arm in setting.arms)
        for arm in (setting.arms[0], setting.arms[-1]):
            count = sum(p.numel() for p in build(arm.arch, device="meta").parameters())
            assert count == params(arm.arch).total, arm.name


@pytest.mark.parametrize("scale", ["smoke", "small"])
def test_the_designs_of_gpt_controls_are_what_their_names_say(scale: str) -> None:
    made = archs("gpt_controls", scale)
    for name, arch in made.items():
        depth, *rest = name.split("_")
        assert depths(arch) == [int(depth[1:])]
        if rest[0] != "narrow":
            assert heads(arch) == [int(rest[0][1:])]
            assert head_dims(arch) == [int(rest[-1][1:]) if rest[-1].startswith("d") else 64]
    width = made["L12_h8"].stages[0].width
    assert {arch.stages[0].width for name, arch in made.items() if name != "L12_narrow"} == {width}
    assert {tuple(mlp_dims(arch)) for name, arch in made.items() if name not in ("L4_h8_mlp", "L12_narrow")} == {
        (4 * width,)
    }
    target = params(made["L4_h16"]).total
    for name in ("L4_h8_mlp", "L12_narrow", "L4_h8_d128"):
        assert params(made[name]).total == pytest.approx(target, rel=0.01 if scale == "smoke" else 1e-3)
    assert params(made["L4_h16_d32"]).total == params(made["L4_h8"]).total
    assert inners(made["L4_h8_d128"]) == inners(made["L4_h16"])
    assert mlp_dims(made["L12_narrow"])[0] % 8 == mlp_dims(made["L4_h8_mlp"])[0] % 8 == 0


def test_rates_are_chosen_on_articles_and_a_seed_that_are_not_reported() -> None:
    tried, used = EXPERIMENTS["gpt_rates"].setting("small"), EXPERIMENTS["gpt_controls"].setting("small")
    assert isinstance(tried.task, LanguageModel)
    assert isinstance(used.task, LanguageModel)
    assert (tried.task.held_split, used.task.held_split) == ("choose", "valid")
    assert not set(tried.seeds) & set(used.seeds)
    grid = {spec.label["arm"]: spec.recipe.lr for spec in specs(EXPERIMENTS["gpt_rates"], "small")}
    assert sorted(set(grid.values())) == [0.5e-3, 1e-3, 2e-3]
    assert {best.name: len(best.arms) for best in tried.bests} == dict.fromkeys(RATES, len(FACTORS))
    for spec in specs(EXPERIMENTS["gpt_controls"], "small"):
        name = spec.label["arm"]
        assert spec.recipe.lr == RATES[NEAREST.get(name, name)]
    assert RATES.keys() | NEAREST.keys() == archs("gpt_controls", "small").keys()
    assert set(RATES.values()) <= set(grid.values())


def test_a_run_of_gpt_controls_reads_98_million_tokens() -> None:
    for spec in specs(EXPERIMENTS["gpt_controls"], "small"):
        assert isinstance(spec.task, LanguageModel)
        assert spec.recipe.basis.kind == "steps"
        assert spec.recipe.basis.amount * spec.recipe.batch * spec.task.tokens == pytest.approx(98.3e6, rel=1e-3)


def test_heads_are_judged_only_where_lost_depth_is_seen_to_cost() -> None:
    (gain,) = primary("gpt_controls", "M1")
    assert (gain.arm, gain.against, gain.expect) == ("L4_h16", "L4_h8_mlp", "better")
    assert [(control.arm, control.against) for control in gain.controls] == [("L4_h8", "L12_h8")]
    (policy,) = primary("gpt_controls", "M2")
    assert (policy.expect, policy.margin) == ("differ", 0.005)
    (trend,) = EXPERIMENTS["gpt_controls"].trends
    assert (trend.claim, trend.primary, trend.held) == ("M3", True, ("params", "depth"))


def test_the_docstring_has_the_commands_that_make_the_corpus() -> None:
    import manyheads.experiments.gpt_controls as module

    text = Path(str(module.__file__)).read_text()
    for word in ("--learn bpe:8192", "--but-last 100", "--only-last 100", "--split choose", "--split valid"):
        assert word in text
