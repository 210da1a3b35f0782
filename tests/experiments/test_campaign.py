"""The experiments of the campaign: arms are what their names say, rates are chosen where nothing is reported, and every
claim has the control that its verdict needs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from manyheads.arch.controls import depths, head_dims, heads, inners, mlp_dims
from manyheads.arch.count import params
from manyheads.experiments.gpt_controls import FACTORS, NEAREST, RATES
from manyheads.experiments.registry import CAMPAIGN, EXPERIMENTS
from manyheads.experiments.vision_regime import CHOSEN
from manyheads.models.build import build
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.experiment import Comparison, RunSpec, specs
from manyheads.spec.images import Images
from manyheads.spec.measurements import Measurement, WrittenDown
from manyheads.spec.text import LanguageModel
from manyheads.tasks import measure
from manyheads.tasks.measurements import Findings


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


# ------------------------------------------------------------------------------------------------------------- vision
@pytest.mark.parametrize("scale", ["smoke", "small"])
def test_the_designs_of_vision_arms_are_what_their_names_say(scale: str) -> None:
    made = archs("vision_arms", scale)
    original = made["L12_h3"]
    (units,) = mlp_dims(original)
    for name, arch in made.items():
        depth, count, *rest = name.split("_")
        assert depths(arch) == [int(depth[1:])]
        assert heads(arch) == [int(count[1:])]
        assert head_dims(arch) == ([16] if rest == ["d16"] else [64])
        assert mlp_dims(arch) == ([units // 2] if rest == ["half"] else [units]) or rest == ["mlp"]
        assert inners(arch)[0] > arch.stages[0].tokens  # past the peak of kappa
    assert params(made["L7_h3_mlp"]).total == pytest.approx(params(made["L7_h12"]).total, rel=0.005)
    assert params(made["L7_h12_d16"]).total == params(made["L7_h3"]).total


def test_the_dose_of_depth_is_given_on_both_sets_with_one_recipe() -> None:
    setting = EXPERIMENTS["vision_dose"].setting("small")
    assert [arm.name for arm in setting.arms] == [f"{name}_L{d}" for name in ("cifar", "tiny") for d in (2, 4, 7, 12)]
    for spec in specs(EXPERIMENTS["vision_dose"], "small"):
        task = spec.task
        assert isinstance(task, Images)
        assert heads(spec.arch) == [3]
        assert (spec.recipe.basis.kind, spec.recipe.basis.amount) == ("epochs", 60)
        augment = task.augment
        assert all((augment.rand, augment.mixup, augment.cutmix, augment.erase, augment.flip))
    chosen = next(arm for arm in setting.arms if arm.name == f"{CHOSEN}_L12")
    used = EXPERIMENTS["vision_arms"].setting("small")
    assert (chosen.task, chosen.arch) == (used.task, used.arms[0].arch)


@pytest.mark.parametrize(
    ("claim", "arm", "against", "control"),
    [
        ("L5", "L12_h6", "L12_h3", ("L4_h3", "L12_h3")),
        ("L6", "L7_h6", "L12_h3", ("L7_h3", "L12_h3")),
        ("L7", "L7_h12", "L7_h3_mlp", ("L7_h3_half", "L7_h3")),
        ("L8", "L4_h12", "L12_h3", ("L4_h3", "L12_h3")),
        ("L9", "L7_h4_half", "L12_h3", ("L7_h3_half", "L12_h3")),
    ],
)
def test_each_claim_of_vision_has_one_primary_comparison_and_its_control(
    claim: str, arm: str, against: str, control: tuple[str, str]
) -> None:
    (pair,) = primary("vision_arms", claim)
    assert (pair.arm, pair.against, pair.metric) == (arm, against, "")
    assert [(one.arm, one.against) for one in pair.controls] == [control]
    assert pair.expect == ("no_loss" if claim in ("L8", "L9") else "better")


# ------------------------------------------------------------------------------------------------------- written down
def one(name: str, scale: str, arm: str, seed: int = 0) -> RunSpec:
    """One run of an experiment."""
    found = {(spec.label["arm"], spec.seed): spec for spec in specs(EXPERIMENTS[name], scale)}
    return found[arm, seed]


def found(name: str, scale: str, arm: str) -> Findings:
    """What the first seed of an arm finds."""
    spec = one(name, scale, arm)
    assert isinstance(spec.task, Measurement)
    return measure(spec.task, spec.arch, spec.seed, torch.device("cpu"))


def test_one_full_rank_head_is_compared_with_the_error_that_is_proved() -> None:
    law = found("constructions", "smoke", "exact_law").score
    assert (law["loss"], law["accuracy"]) == (0.0, 1.0)
    for tokens in (2, 16, 256):
        assert found("constructions", "smoke", f"exact_N{tokens}").score["loss"] < 1e-6


@pytest.mark.parametrize("count", [65, 257])
def test_the_vote_that_is_measured_follows_the_law_that_stands_beside_it(count: int) -> None:
    vote, law = (found("rank_vote", "smoke", f"{network}_h{count}").score for network in ("vote", "law"))
    assert vote["loss"] == pytest.approx(law["loss"], rel=0.15)
    assert vote["loss"] != law["loss"]
    assert vote["accuracy"] == pytest.approx(1 - vote["loss"] / 2, abs=1e-3)  # a wrong vote costs 2
    assert law["accuracy"] == pytest.approx(1 - law["loss"] / 2)
    assert 1 - found("rank_vote", "smoke", "law_h257").score["accuracy"] < 0.5


def test_every_size_of_a_growth_has_its_heads_doubled_at_half_the_rank() -> None:
    for scale in ("smoke", "laptop"):
        setting = EXPERIMENTS["rank_growth"].setting(scale)
        made = {arm.name: arm for arm in setting.arms}
        assert [(growth.claim, growth.share, growth.primary) for growth in setting.growths] == [
            ("A2", 0.5, True),
            ("A2", 0.3, False),
            ("A7", 0.5, True),
        ]
        for growth in setting.growths:
            assert list(growth.sizes) == [4, 5, 6, 7, 8]
            for dim, names in growth.sizes.items():
                counts = [heads(made[name].arch)[0] for name in names]
                assert counts == [counts[0] * 2**i for i in range(len(counts))]
                assert {head_dims(made[name].arch)[0] for name in names} == {dim // 2}
                biases = made[names[0]].task["biases"]  # type: ignore[index]
                assert biases == (5 if growth.claim == "A7" else 0)


def test_more_heads_of_half_the_rank_err_less_and_full_rank_does_not_err_at_all() -> None:
    for kind, arms in (("plain", ("h1", "h4", "full")), ("biased", ("h16", "h64", "full"))):
        losses = [found("rank_growth", "smoke", f"{kind}_d4_{arm}") for arm in arms]
        errors = [finding.score["loss"] for finding in losses]
        assert errors[0] > errors[1] + 0.05
        assert errors[2] < 1e-6
        assert errors[0] < losses[0].trivial["loss"] == pytest.approx(0.5)  # always the mean of both points


def test_a_vote_is_between_two_points_without_biases() -> None:
    for wrong in ({"tokens": 3}, {"biases": 3}):
        with pytest.raises(UserError, match="a vote is between two points"):
            WrittenDown(network="vote", **wrong)
