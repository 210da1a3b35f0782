"""The first paper's experiments are what they say: every claim has one, arms differ in what they state and in nothing
else, and what was published stands beside them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from manyheads.arch import zoo
from manyheads.arch.controls import depths, head_dims, heads, inners, mlp_dims
from manyheads.arch.count import params
from manyheads.arch.redesign import policy_of
from manyheads.experiments import long_range, long_range_recipes, recipes, scales, vision_pairs
from manyheads.experiments.claims import CLAIMS
from manyheads.experiments.crammed_bert import TABLE1_GLUE, classifier
from manyheads.experiments.recipes import TABLE6, TABLE6_LARGE, table6_task
from manyheads.experiments.registry import EXPERIMENTS, FIRST
from manyheads.models.build import build
from manyheads.paper.audit import likely
from manyheads.paper.rows import BY_ID
from manyheads.spec.arch import Arch, attentions, editable
from manyheads.spec.experiment import Arm, Experiment, specs
from manyheads.spec.recipe import Recipe
from manyheads.tasks import Glue, fit
from manyheads.tasks.measurements import Measurement

SCALES = ("smoke", "small", "paper")
NAMES = list(FIRST)


def arms(name: str, scale: str) -> dict[str, Arm]:
    """An experiment's arms by name."""
    return {arm.name: arm for arm in EXPERIMENTS[name].setting(scale).arms}


def archs(name: str, scale: str) -> dict[str, Arch]:
    """Their models."""
    return {arm.name: arm.arch for arm in EXPERIMENTS[name].setting(scale).arms}


def shape(arch: Arch) -> tuple[list[int], ...]:
    """Depth, heads, head_dim and MLP of every stage."""
    return depths(arch), heads(arch), head_dims(arch), mlp_dims(arch)


def every(experiment: Experiment) -> list[Arch]:
    """Each model of an experiment once."""
    return list(dict.fromkeys(arm.arch for setting in experiment.settings.values() for arm in setting.arms))


# ---------------------------------------------------------------------------------------------------------- all of them
UNDECIDED = {"M4"}  # claims without an experiment yet: speed at equal loss


def test_every_claim_is_decided_by_an_experiment_or_waits_for_one() -> None:
    decided = {claim for experiment in EXPERIMENTS.values() for claim in experiment.claims}
    assert decided == CLAIMS.keys() - UNDECIDED


@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_has_three_scales_and_seeds_enough_to_decide(name: str) -> None:
    settings = EXPERIMENTS[name].settings
    assert set(settings) == set(SCALES) - ({"smoke"} if name == "table1_glue" else set())  # GLUE has no offline form
    assert all(len(settings[scale].seeds) >= 3 for scale in settings if scale != "smoke")
    assert all(arm.note for setting in settings.values() for arm in setting.arms)


@pytest.mark.parametrize("name", NAMES)
def test_what_was_printed_belongs_to_arms_of_the_papers_own_size(name: str) -> None:
    experiment = EXPERIMENTS[name]
    assert experiment.printed.keys() <= archs(name, "paper").keys()


@pytest.mark.parametrize("name", NAMES)
def test_models_can_be_built_and_have_the_counted_parameters(name: str) -> None:
    """On meta, the first and the last arm of every scale; all of them below, where there is time."""
    for setting in EXPERIMENTS[name].settings.values():
        for arm in (setting.arms[0], setting.arms[-1]):
            count = sum(p.numel() for p in build(arm.arch, device="meta").parameters())
            assert count == params(arm.arch).total, arm.name


@pytest.mark.slow  # some hundred models: 12 s of CPU in all
@pytest.mark.parametrize("name", NAMES)
def test_every_model_of_every_scale_can_be_built(name: str) -> None:
    for arch in every(EXPERIMENTS[name]):
        assert sum(p.numel() for p in build(arch, device="meta").parameters()) == params(arch).total


def test_the_catalogue_makes_an_experiment_when_it_is_asked_for() -> None:
    assert [name for name in EXPERIMENTS if name in FIRST] == NAMES
    assert all(EXPERIMENTS[name].name == name for name in NAMES)
    assert "table6" not in EXPERIMENTS


# --------------------------------------------------------------------------------------------- recipes and tasks
PROBES = ("probe_every", "probe_samples", "probe_detail", "probe_jacobian")


def unprobed(recipe: Recipe) -> Recipe:
    """Without the probe, which changes nothing."""
    return replace(recipe, **{name: getattr(Recipe(), name) for name in PROBES})


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("table4 paper", lambda: TABLE6),
        ("table2 small", recipes.stories_proper),
        ("table2 paper", recipes.stories_repository),
        ("table1 paper", recipes.crammed),
        ("table1_glue paper", recipes.glue),
    ],
    ids=["table4 paper", "table2 small", "table2 paper", "table1 paper", "table1_glue paper"],
)
def test_experiments_train_by_the_named_recipes(ours: str, theirs: Callable[[], Recipe]) -> None:
    name, scale = ours.split()
    bases = EXPERIMENTS[name].setting(scale).recipes
    recipe = bases.get("seconds") or next(iter(bases.values()))
    assert unprobed(recipe) == unprobed(theirs())


def test_large_models_have_half_the_batch() -> None:
    batches = {spec.label["arm"]: spec.recipe.batch for spec in specs(EXPERIMENTS["table5"], "paper")}
    assert set(batches.values()) == {TABLE6_LARGE.batch} == {512}


def test_tasks_are_those_of_training() -> None:
    assert EXPERIMENTS["table4"].setting("paper").task == table6_task()
    assert EXPERIMENTS["table2"].setting("small").task == recipes.stories_proper_task()
    assert EXPERIMENTS["table2"].setting("paper").task == recipes.stories_repository_task()
    assert EXPERIMENTS["table1"].setting("paper").task == recipes.crammed_task()


@pytest.mark.parametrize("task", list(long_range_recipes.PUBLISHED))
def test_the_long_range_tasks_are_as_published(task: str) -> None:
    entry, original = long_range_recipes.PUBLISHED[task], arms("table3", "paper")[f"{task}_L2_h2"]
    assert (original.arch, original.task) == (entry.arch, entry.task)
    assert unprobed(original.recipe) == unprobed(entry.recipe)
    assert arms("table3", "paper")[f"{task}_L1_h4"].arch == entry.lean
    published = [100 * EXPERIMENTS["table3"].printed[f"{task}_{point}"] for point in ("L2_h2", "L1_h4")]
    assert published == pytest.approx([entry.accuracy["original"], entry.accuracy["lean"]])


# --------------------------------------------------------------------------------------------------- Tables 4, 5, Fig 1
@pytest.mark.parametrize("key", vision_pairs.BASE + vision_pairs.LARGE)
def test_at_paper_scale_a_pair_is_the_audited_one(key: str) -> None:
    table = "table4" if key in vision_pairs.BASE else "table5"
    for role in ("original", "lean"):
        assert archs(table, "paper")[f"{key}_{role}"] == likely(BY_ID[f"{key}/{role}"]).arch
        assert EXPERIMENTS[table].printed[f"{key}_{role}"] == pytest.approx(BY_ID[f"{key}/{role}"].scores["top1"] / 100)


@pytest.mark.parametrize("scale", ["smoke", "small"])
@pytest.mark.parametrize("key", vision_pairs.BASE + vision_pairs.LARGE)
def test_a_twin_keeps_stages_attention_ratios_and_policy(key: str, scale: str) -> None:
    audited, twin = vision_pairs.pair(key, "paper"), vision_pairs.pair(key, scale)
    for one, other in ((audited.original, twin.original), (audited.lean, twin.lean)):
        assert [_kinds(stage) for stage in one.stages] == [_kinds(stage) for stage in other.stages]
        assert [type(stage.enter) for stage in one.stages] == [type(stage.enter) for stage in other.stages]
    assert policy_of(twin.original, twin.lean) == audited.policy
    ratios = [
        [after / before for before, after in zip(what(one.original), what(one.lean), strict=True)]
        for what in (depths, heads, mlp_dims)
        for one in (audited, twin)
    ]
    for wanted, found in (ratios[:2], ratios[2:4], ratios[4:]):
        assert found == pytest.approx(wanted, abs=0.26 if scale == "smoke" else 0.13)  # whole layers, whole heads


def _kinds(stage: Any) -> list[str]:
    return [type(op.mix).__name__ for op in attentions(stage)]


@pytest.mark.parametrize(
    ("family", "smallest"),
    [
        ("vit_b", "vit_ti"),
        ("deit_b", "deit_ti"),
        ("xcit_m", "xcit_s12"),
        ("tnt_b", "tnt_s"),
        ("volo_d3", "volo_d1"),
        ("davit_b", "davit_t"),
    ],
)
def test_at_small_scale_an_original_is_the_familys_smallest(family: str, smallest: str) -> None:
    ours, theirs = vision_pairs.pair(family, "small").original, zoo.get(smallest)
    assert shape(ours) == shape(theirs)
    assert [stage.width for stage in ours.stages] == [stage.width for stage in theirs.stages]
    assert ours.embed.image == 64  # type: ignore[union-attr]


def test_outlook_attention_has_more_tokens_than_columns_at_every_scale() -> None:
    for scale in SCALES:
        stage = vision_pairs.pair("volo_d3", scale).original.stages[0]
        assert stage.tokens > attentions(stage)[0].inner


@pytest.mark.parametrize("scale", SCALES)
def test_figure_1_has_the_runs_of_both_tables_and_no_others(scale: str) -> None:
    both = {spec.id for name in ("table4", "table5") for spec in specs(EXPERIMENTS[name], scale)}
    assert {spec.id for spec in specs(EXPERIMENTS["fig1"], scale)} == both


# ---------------------------------------------------------------------------------------------------------- section 4.1
@pytest.mark.parametrize("scale", SCALES)
def test_arms_of_figures_2_and_3_differ_in_heads_and_depth_alone(scale: str) -> None:
    base = scales.TWIN[scale]
    for name in ("fig2", "fig3"):
        for arm, arch in archs(name, scale).items():
            depth, count = (int(part[1:]) for part in arm.split("_"))
            assert shape(arch) == ([depth], [count], head_dims(base), mlp_dims(base))
    assert [int(arm.partition("_h")[2]) for arm in archs("fig2", scale)] == [2, 3, *range(4, 19, 2)]
    assert len(archs("fig3", scale)) == 18


@pytest.mark.parametrize("scale", SCALES)
def test_the_twin_has_its_peak_where_vit_b_has_it(scale: str) -> None:
    base = scales.TWIN[scale]
    tokens, dim = base.stages[0].tokens, head_dims(base)[0]
    assert abs(3 * dim / tokens - 1) < 0.07
    assert inners(base) == [12 * dim] == [base.stages[0].width]


@pytest.mark.parametrize("scale", SCALES)
def test_heads_and_mlp_are_compared_at_equal_parameters(scale: str) -> None:
    made = archs("fig4", scale)
    for depth in (12, 8):
        ours, theirs = (params(made[f"L{depth}_{name}"]).total for name in ("h18", "m5"))
        assert ours == pytest.approx(theirs, rel=0.001)
    assert all(spec.recipe.probe_detail for spec in specs(EXPERIMENTS["fig4"], scale))


def test_configurations_of_figure_5_are_smaller_than_the_original() -> None:
    for scale in SCALES:
        made = archs("fig5", scale)
        assert params(made["L6_h24_m4"]).total < params(made["L12_h12"]).total


# ------------------------------------------------------------------------------------------------- language, long range
def test_crammed_bert_has_the_four_designs_and_lean_has_the_parameters_of_depth_alone() -> None:
    made = archs("table1", "paper")
    assert {name: tuple(number[0] for number in shape(arch)[:3]) for name, arch in made.items()} == {
        "original": (16, 12, 64),
        "lean": (10, 24, 32),
        "fixed": (10, 24, 64),
        "depth_only": (10, 12, 64),
        "heads_only": (16, 24, 32),
    }
    assert params(made["lean"]).total == params(made["depth_only"]).total == 84_182_017
    for scale in SCALES:
        assert set(EXPERIMENTS["table1"].setting(scale).recipes) == {"tokens", "seconds"}


def test_gpt2_is_the_audited_one_and_its_arms_take_it_apart() -> None:
    made = archs("table2", "paper")
    assert params(made["original"]).total == 89_160_785
    assert params(made["lean"]).total == 64_150_609
    assert [heads(made[name]) + head_dims(made[name]) for name in ("fixed", "depth_only")] == [[16, 42], [12, 42]]


def test_fine_tuning_puts_glues_own_classifier_on_the_pretrained_models() -> None:
    pretrained = archs("table1", "paper")
    for arm in TABLE1_GLUE.setting("paper").arms:
        task = arm.own_task(TABLE1_GLUE.setting("paper"))
        assert isinstance(task, Glue)
        design = arm.name.removesuffix(f"_{task.task}")
        assert arm.arch == fit(task, pretrained[design]) == classifier(pretrained[design], arm.arch.head.classes)  # type: ignore[union-attr]
    assert len(TABLE1_GLUE.setting("paper").arms) == 32


@pytest.mark.parametrize("name", ["fig8", "fig9"])
def test_the_figures_have_all_points(name: str) -> None:
    for scale in SCALES:
        assert {(depths(arch)[0], heads(arch)[0]) for arch in archs(name, scale).values()} == set(long_range.POINTS)
        assert len({arch.stages[0].tokens for arch in archs(name, scale).values()}) == 1


def test_the_published_counts_of_the_figures() -> None:
    assert [params(arch).total for arch in archs("fig8", "paper").values()] == [
        209_942,
        243_234,
        276_526,
        309_818,
        176_400,
        193_046,
        209_692,
        226_338,
    ]


# ---------------------------------------------------------------------------------------------- the ones nobody had run
@pytest.mark.parametrize("scale", SCALES)
def test_controls_have_all_controls_on_three_bases(scale: str) -> None:
    setting = EXPERIMENTS["controls"].setting(scale)
    assert [arm.name for arm in setting.arms] == [
        "original",
        "lean",
        "depth_only",
        "heads_only",
        "split",
        "wide_heads",
        "mlp_matched",
        "params_matched",
    ]
    assert list(setting.recipes) == ["steps", "flops", "seconds"]
    kinds = [recipe.basis.kind for recipe in setting.recipes.values()]
    assert kinds[1:] == ["flops", "seconds"]
    lean = params(archs("controls", scale)["lean"]).total
    for name in ("mlp_matched", "params_matched"):
        assert params(archs("controls", scale)[name]).total == pytest.approx(lean, rel=0.01)


def test_a_flop_budget_is_what_the_original_needs_for_its_steps() -> None:
    from manyheads.train.budget import budget

    setting = EXPERIMENTS["controls"].setting("small")
    recipe = setting.recipes["flops"]
    steps = {
        arm.name: budget(recipe, arm.arch, unit="images", per_sample=1, samples=50_000).steps for arm in setting.arms
    }
    assert steps["original"] == pytest.approx(setting.recipes["steps"].basis.amount, rel=0.01)
    assert steps["lean"] > 1.9 * steps["original"]  # type: ignore[operator]


def test_arms_of_lr_differ_in_their_rate_alone() -> None:
    for scale in SCALES:
        made = EXPERIMENTS["lr"].setting(scale).arms
        for arm in made:
            assert set(arm.recipe) == {"lr"}
            twin = next(other for other in made if other.name.startswith(arm.name.partition("_x")[0] + "_x"))
            assert (twin.arch, twin.task) == (arm.arch, arm.task)
        rates = [arm.recipe["lr"] for arm in made if arm.name.startswith("lean")]
        assert all(after > before for before, after in pairwise(rates))


def test_lr_keeps_images_to_choose_rates_by_and_controls_train_on_all() -> None:
    for scale in ("smoke", "small"):
        assert {run.task.validation for run in specs(EXPERIMENTS["lr"], scale)} == {0.1}  # type: ignore[attr-defined]
        assert {run.task.validation for run in specs(EXPERIMENTS["controls"], scale)} == {0.0}  # type: ignore[attr-defined]


@pytest.mark.parametrize("scale", SCALES)
def test_policies_are_compared_at_equal_depth(scale: str) -> None:
    made = archs("policy", scale)
    for name in ("xcit", "tnt", "volo", "davit"):
        split, fixed, matched, bare = (
            made[f"{name}_{role}"] for role in ("split", "fixed", "fixed_matched", "depth_only")
        )
        assert depths(split) == depths(fixed) == depths(matched) == depths(bare)
        assert heads(split) == heads(fixed) == heads(matched) != heads(bare)
        assert head_dims(fixed) == head_dims(matched) == head_dims(bare) != head_dims(split)
        assert mlp_dims(split) == mlp_dims(fixed) == mlp_dims(bare)
        assert params(matched).total == pytest.approx(params(split).total, rel=0.005)
        assert policy_of(bare, split) == "split"
        assert policy_of(bare, fixed) == "fixed"


def test_designs_of_equal_parameters_are_among_the_correlated() -> None:
    for scale in SCALES:
        made = archs("correlation", scale)
        assert params(made["fixed2"]).total == pytest.approx(params(made["wide2"]).total, rel=1e-3)
        assert inners(made["fixed2"]) == inners(made["wide2"])
        assert params(made["split2"]).total == params(made["original"]).total


@pytest.mark.parametrize("name", ["theorem", "latency", "memory", "constructions"])
def test_what_is_not_trained_is_measured(name: str) -> None:
    for scale in SCALES:
        for spec in specs(EXPERIMENTS[name], scale):
            assert isinstance(spec.task, Measurement)


def test_every_row_with_a_memory_figure_is_measured_both_ways() -> None:
    rows = {row.id.replace("/", "_") for row in BY_ID.values() if row.memory is not None}
    assert {f"{row}_{kind}" for row in rows for kind in ("fp32", "bf16")} == set(archs("memory", "paper"))
    assert EXPERIMENTS["memory"].printed["vit_b_original_fp32"] == pytest.approx(22.3)
    assert arms("memory", "paper")["vit_l_lean_bf16"].task == {"rows": 64, "precision": "amp", "fused": True}


def test_editable_stages_are_all_that_a_pair_changes() -> None:
    for key in vision_pairs.BASE + vision_pairs.LARGE:
        made = vision_pairs.pair(key, "small")
        kept = [i for i in range(len(made.original.stages)) if i not in editable(made.original)]
        assert [made.original.stages[i] for i in kept] == [made.lean.stages[i] for i in kept]
