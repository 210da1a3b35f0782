"""What keeps two arms from being compared although somebody trained both, and what is said beside a verdict."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from manyheads.experiments.demo import ARMS, DEMO
from manyheads.experiments.registry import EXPERIMENTS
from manyheads.report.page import write
from manyheads.report.read_runs import Asked, Section, read_runs
from manyheads.report.section_summary import conclusion
from manyheads.report.section_verdicts import Judgement, verdicts
from manyheads.spec.comparison import Comparison, Loses, Trend
from manyheads.spec.errors import UserError
from manyheads.spec.experiment import Best, Experiment, folder, specs
from manyheads.spec.recipe import Basis
from manyheads.spec.run import RunSpec
from tests.specs import changed, run_spec

from .made import MACHINE, put

SEEDS = (0, 1, 2)
LEVELS = (0.0, 0.002, -0.001)  # what a seed adds


def written(path: Path, spec: RunSpec, value: float, **result: Any) -> None:
    """A finished run whose result has other fields than `put` writes; those that are mappings are added to."""
    put(path, spec, value, guess=0.1)
    record = json.loads((path / "result.json").read_text())
    for name, given in result.items():
        record["result"][name] = record["result"].get(name, {}) | given if isinstance(given, dict) else given
    (path / "result.json").write_text(json.dumps(record))


def diverged(path: Path, spec: RunSpec) -> None:
    """A run that ended as `train` ends one that diverges."""
    path.mkdir(parents=True)
    (path / "spec.json").write_text(json.dumps(spec.to_dict() | {"id": spec.id}))
    (path / "status.json").write_text(json.dumps({"schema": 1, "state": "failed", "step": 7, "diverged": True}))


def own(root: Path, arm: str, value: float, *, recipe: dict[str, Any] | None = None, **result: Any) -> None:
    """Three finished runs that belong to no experiment."""
    arch = next(one.arch for one in ARMS if one.name == arm)
    setting = DEMO.setting("smoke")
    assert setting.task is not None
    for seed, by in zip(SEEDS, LEVELS, strict=True):
        spec = run_spec(arch, setting.task, changed(setting.recipes["steps"], **(recipe or {})), seed)
        written(root / f"{arm}-s{seed}", spec, value + by, **result)


def language(root: Path, name: str, arm: str, loss: float) -> None:
    """Three finished runs of a language model, whose headline is a loss."""
    for seed, by in zip(SEEDS, LEVELS, strict=True):
        spec = next(spec for spec in specs(EXPERIMENTS["table2"], "smoke") if spec.label["arm"] == arm)
        score = {"score": {"loss": loss + by}, "better": ["loss", "down"], "trivial": {"loss": 7.0}}
        written(root / f"{name}-s{seed}", replace(spec, seed=seed, label={}), 0.5, **score)


def known(pairs: tuple[Comparison, ...], seeds: tuple[int, ...] = SEEDS, **fields: Any) -> Experiment:
    """The demonstration at scale small with these comparisons."""
    setting = replace(DEMO.setting("smoke"), seeds=seeds, **fields)
    return replace(DEMO, settings={"small": setting}, comparisons=pairs)


def filled(root: Path, experiment: Experiment, values: dict[str, float], **result: Any) -> Section:
    """Finished runs of the arms that have a value, and the section that they make."""
    for spec in specs(experiment, "small"):
        if spec.label["arm"] in values:
            by = LEVELS[spec.seed % 3]
            written(folder(root, spec), spec, values[spec.label["arm"]] + by, **result)
    return only_section(root, experiment)


def only_section(root: Path, experiment: Experiment | None = None) -> Section:
    """The one section of the runs below a folder."""
    (section,) = read_runs(root, {experiment.name: experiment} if experiment else {}).sections
    return section


def word(section: Section, arm: str = "lean") -> tuple[str, str]:
    """The word and the reason of the first verdict about an arm."""
    one = next(one for one in verdicts(section) if one.pair.arm == arm)
    return one.verdict.word, one.verdict.reason


def first(section: Section) -> Judgement:
    """The first verdict of a section."""
    return verdicts(section)[0]


# ------------------------------------------------------------------------------------------ directions of metrics
def test_a_loss_is_not_better_when_it_is_higher_because_images_lie_beside_it(tmp_path: Path) -> None:
    own(tmp_path, "lean", 0.85)  # its headline goes up, and it is listed first
    language(tmp_path, "original", "original", 2.0)
    language(tmp_path, "talker", "lean", 2.5)
    section = only_section(tmp_path)
    assert word(section, "talker")[0] == "worse"
    assert word(section, "lean")[0] == "not comparable"


@pytest.mark.parametrize("metric", ["valid_top1", "test_top1"])
def test_an_accuracy_on_other_samples_is_better_when_it_is_higher(tmp_path: Path, metric: str) -> None:
    own(tmp_path, "original", 0.8, score={metric: 0.8})
    own(tmp_path, "lean", 0.9, score={metric: 0.9})
    assert word(read_runs(tmp_path, {}, Asked(metric=metric)).sections[0])[0] == "better"


def test_of_a_number_that_is_neither_good_nor_bad_it_is_said_which_arm_has_more(tmp_path: Path) -> None:
    own(tmp_path, "original", 0.8, score={"odd": 3.0})
    own(tmp_path, "lean", 0.8, score={"odd": 4.0})
    section = read_runs(tmp_path, {}, Asked(metric="odd")).sections[0]
    assert word(section)[0] == "higher"
    assert "lean against original: higher in odd." in conclusion(section)
    for expect in ("better", "no_loss"):
        with pytest.raises(UserError, match="whether more of odd is better is not known"):
            write(tmp_path, tmp_path / "page.html", asked=Asked(expect=expect, margin=0.1, metric="odd"))


def test_a_metric_that_no_run_has_is_refused_with_those_that_there_are(tmp_path: Path) -> None:
    own(tmp_path, "original", 0.8)
    with pytest.raises(UserError, match=r"no finished run has the metric 'top2'; did you mean top1.* loss, top1"):
        write(tmp_path, tmp_path / "page.html", asked=Asked(metric="top2"))


def test_every_comparison_of_quality_has_a_metric_with_a_known_direction(tmp_path: Path) -> None:
    from manyheads.report.directions import direction

    for experiment in EXPERIMENTS.values():
        for pair in experiment.comparisons:
            if pair.metric and pair.metric != "best" and pair.expect in ("better", "no_loss", "open"):
                assert direction(pair.metric, []) is not None, (experiment.name, pair.name, pair.metric)


# -------------------------------------------------------------------------------------------- runs that are missing
def test_an_arm_that_diverges_at_some_seeds_is_not_judged_by_the_others(tmp_path: Path) -> None:
    own(tmp_path, "original", 0.8)
    own(tmp_path, "lean", 0.9)
    spec = read_runs(tmp_path, {}).sections[0].arms[0].runs[0].folder.spec
    assert spec is not None
    diverged(tmp_path / "lean-s3", replace(spec, seed=3, arch=ARMS[1].arch))
    found, reason = word(only_section(tmp_path))
    assert found == "not comparable"
    assert "1 of 4 runs of lean diverged" in reason


def test_training_that_diverges_says_so_in_its_status(tmp_path: Path) -> None:
    from manyheads.runs import Run
    from manyheads.train.early_end import Diverged
    from manyheads.train.loop import train

    setting = DEMO.setting("smoke")
    recipe = changed(setting.recipes["steps"], lr=1e4, clip=0.0, basis=Basis("steps", 60), probe_every=0)
    task = replace(setting.task, limit=200, test_limit=20)
    spec = run_spec(ARMS[2].arch, task, recipe, 0)
    with pytest.raises(Diverged):
        train(Run.create(tmp_path / "hot-s0", spec), device="cpu", quiet=True)
    assert only_section(tmp_path).runs[0].diverged


def test_finished_runs_without_a_finite_score_are_not_left_out_of_an_arm(tmp_path: Path) -> None:
    own(tmp_path, "original", 0.8)
    own(tmp_path, "lean", 0.9)
    file = tmp_path / "lean-s2" / "result.json"
    record = json.loads(file.read_text())
    record["result"]["score"]["top1"] = None
    file.write_text(json.dumps(record))
    spec = read_runs(tmp_path, {}).sections[0].arms[0].runs[0].folder.spec
    assert spec is not None
    written(tmp_path / "lean-s3", replace(spec, seed=3, arch=ARMS[1].arch), 0.9)
    found, reason = word(only_section(tmp_path))
    assert found == "not comparable"
    assert "1 of 4 finished runs of lean have no top1" in reason


def test_a_verdict_before_all_planned_seeds_are_finished_says_so(tmp_path: Path) -> None:
    experiment = known((Comparison("lean", "original", "better"),), seeds=(0, 1, 2, 3, 4))
    section = filled(tmp_path, experiment, {"lean": 0.9, "original": 0.8})
    for seed in (3, 4):
        section.arms[0].runs[:] = [run for run in section.arms[0].runs if run.seed != seed]
    assert first(section).verdict.word == "holds"
    assert "2 of 5 planned seeds have not finished in all arms." in first(section).verdict.reason
    assert any("2 of 5 planned seeds" in line for line in conclusion(section))


# ------------------------------------------------------------------------------------------- machines, data, recipes
def test_arms_in_other_precisions_are_not_comparable(tmp_path: Path) -> None:
    own(tmp_path, "original", 0.8, machine=MACHINE | {"precision": "fp32"})
    own(tmp_path, "lean", 0.9, machine=MACHINE | {"precision": "bf16"})
    found, reason = word(only_section(tmp_path))
    assert found == "not comparable"
    assert "machine.precision (bf16, fp32)" in reason


def test_other_machines_and_recipes_are_told_beside_the_verdict(tmp_path: Path) -> None:
    own(tmp_path, "original", 0.8, machine=MACHINE | {"torch": "2.11"})
    own(tmp_path, "lean", 0.9, machine=MACHINE | {"torch": "2.14"}, recipe={"lr": 1e-3, "log_every": 7})
    section = only_section(tmp_path)
    found, reason = word(section)
    assert found == "better"
    assert "Their recipes differ in lr." in reason
    assert "They were computed with different torch (2.11, 2.14)." in reason
    assert any("Their recipes differ in lr." in line for line in conclusion(section))


def test_machines_that_are_the_same_seed_by_seed_are_no_difference(tmp_path: Path) -> None:
    own(tmp_path, "original", 0.8)
    own(tmp_path, "lean", 0.9)
    for arm in ("original", "lean"):
        file = tmp_path / f"{arm}-s1" / "result.json"
        record = json.loads(file.read_text())
        record["result"]["machine"] = MACHINE | {"precision": "bf16", "torch": "2.14"}
        file.write_text(json.dumps(record))
    found, reason = word(only_section(tmp_path))
    assert found == "better"
    assert "different torch" not in reason


@pytest.mark.parametrize(("name", "value"), [("device", "another"), ("threads", 8)])
def test_times_of_other_machines_are_not_compared(tmp_path: Path, name: str, value: object) -> None:
    own(tmp_path, "original", 0.8, timing={"rate": 100.0})
    own(tmp_path, "lean", 0.8, timing={"rate": 200.0}, machine={name: value})
    found, reason = word(read_runs(tmp_path, {}, Asked(metric="rate")).sections[0])
    assert found == "not comparable"
    assert f"machine.{name}" in reason


def test_times_of_runs_that_shared_their_device_are_not_compared(tmp_path: Path) -> None:
    for arm, rate in (("original", 100.0), ("lean", 200.0)):
        own(tmp_path, arm, 0.8, timing={"rate": rate, "on_device": 2 if arm == "lean" else 1})
    found, reason = word(read_runs(tmp_path, {}, Asked(metric="rate")).sections[0])
    assert found == "not comparable"
    assert "3 of 6 runs shared their device, up to 2 at a time" in reason
    assert word(only_section(tmp_path))[0] == "within noise"  # an accuracy does not mind


def test_scores_on_a_budget_of_seconds_need_runs_that_were_alone(tmp_path: Path) -> None:
    for arm, value in (("original", 0.8), ("lean", 0.9)):
        own(tmp_path, arm, value, recipe={"basis": Basis("seconds", 9.0)}, timing={"on_device": 4})
    found, reason = word(only_section(tmp_path))
    assert found == "not comparable"
    assert "6 of 6 runs shared their device" in reason


@pytest.mark.parametrize("facts", [{"trivial": {"top1": 0.12}}, {"held_out": 500}, {"data_sha256": "b" * 64}])
def test_data_with_other_facts_is_other_data(tmp_path: Path, facts: dict[str, Any]) -> None:
    usual = {"held_out": 10_000, "data_sha256": "a" * 64}
    own(tmp_path, "original", 0.8, **usual)
    own(tmp_path, "lean", 0.9, **(usual | facts))
    found, reason = word(only_section(tmp_path))
    assert found == "not comparable"
    assert "their data" in reason


def test_the_best_of_more_evaluations_is_no_fair_best(tmp_path: Path) -> None:
    own(tmp_path, "original", 0.8)
    own(tmp_path, "lean", 0.9, recipe={"evaluate_every": 0.01})
    found, reason = word(read_runs(tmp_path, {}, Asked(metric="best")).sections[0])
    assert found == "not comparable"
    assert "recipe.evaluate_every" in reason
    assert word(only_section(tmp_path))[0] == "better"


# -------------------------------------------------------------------------------------------------- whole experiments
def test_fine_tuning_runs_of_an_arm_are_one_arm_although_each_starts_from_its_own_weights(tmp_path: Path) -> None:
    tuning = EXPERIMENTS["table1_glue"]
    scores = {"lean": 0.8, "original": 0.8, "depth_only": 0.7, "fixed": 0.8}
    for spec in specs(tuning, "small"):
        design, _, task = spec.label["arm"].rpartition("_")
        if task != "sst2":
            continue
        weights = f"{sorted(scores).index(design)}{spec.seed}".rjust(64, "a")
        spec = replace(spec, task=replace(spec.task, weights=weights))  # type: ignore[call-arg]
        value = scores[design] + LEVELS[spec.seed]
        scored = {"score": {"accuracy": value}, "better": ["accuracy", "up"], "trivial": {"accuracy": 0.5}}
        written(folder(tmp_path, spec), spec, value, **scored)
    section = only_section(tmp_path, tuning)
    assert {arm.name: arm.seeds for arm in section.arms} == {f"{design}_sst2": 3 for design in scores}
    assert word(section, "lean_sst2")[0] == "holds"


def test_two_models_that_are_fine_tuned_without_an_experiment_are_two_arms(tmp_path: Path) -> None:
    spec = specs(EXPERIMENTS["table1_glue"], "small")[0]
    for name in ("early", "late"):
        for seed in SEEDS:
            weights = f"{name[0]}{seed}".encode().hex().rjust(64, "0")
            tuned = replace(spec, seed=seed, label={}, task=replace(spec.task, weights=weights))  # type: ignore[call-arg]
            written(tmp_path / f"{name}-s{seed}", tuned, 0.8 + LEVELS[seed])
    assert {arm.name: arm.seeds for arm in only_section(tmp_path).arms} == {"early": 3, "late": 3}


def test_a_choice_of_rates_does_not_make_two_arms_at_chance_equal(tmp_path: Path) -> None:
    arms = tuple(
        replace(arm, name=f"{arm.name}_x{factor}", recipe={"lr": 1e-3 * factor})
        for arm in ARMS[:2]
        for factor in (1, 2, 4)
    )
    bests = tuple(Best(arm.name, tuple(f"{arm.name}_x{factor}" for factor in (1, 2, 4))) for arm in ARMS[:2])
    pair = Comparison("lean_x2", "original_x2", "no_loss", 0.05)
    experiment = known((pair,), seeds=(0, 1, 2, 3), arms=arms, bests=bests)
    section = filled(tmp_path, experiment, {arm.name: 0.1 for arm in arms})
    best = verdicts(section)[1]
    assert best.pair.name.startswith("lean at its best")
    assert best.verdict.word == "not testable in this setting"


def test_a_choice_of_rates_needs_the_controls_of_its_comparison(tmp_path: Path) -> None:
    arms = tuple(replace(arm, name=f"{arm.name}_x1", recipe={"lr": 1e-3}) for arm in ARMS)
    bests = tuple(Best(arm.name, (f"{arm.name}_x1",)) for arm in ARMS)
    pair = Comparison("lean_x1", "original_x1", "no_loss", 0.05, controls=(Loses("depth_only_x1", "original_x1"),))
    experiment = known((pair,), seeds=(0, 1, 2, 3), arms=arms, bests=bests)
    section = filled(tmp_path, experiment, {arm.name: 0.8 for arm in arms})
    assert {one.verdict.word for one in verdicts(section)} == {"not testable in this setting"}


def test_a_best_that_was_chosen_before_all_rates_have_finished_says_so(tmp_path: Path) -> None:
    arms = tuple(
        replace(arm, name=f"{arm.name}_x{factor}", recipe={"lr": 1e-3 * factor})
        for arm in ARMS[:2]
        for factor in (1, 2)
    )
    bests = tuple(Best(arm.name, (f"{arm.name}_x1", f"{arm.name}_x2")) for arm in ARMS[:2])
    pair = Comparison("lean_x1", "original_x1", "better")
    experiment = known((pair,), seeds=(0, 1, 2, 3), arms=arms, bests=bests)
    section = filled(tmp_path, experiment, {"lean_x1": 0.9, "original_x1": 0.8, "original_x2": 0.8})
    assert "chosen without lean_x2, of which no run has finished" in verdicts(section)[1].verdict.reason


def test_two_arms_at_chance_are_not_shown_to_be_the_same(tmp_path: Path) -> None:
    experiment = known((Comparison("lean", "original", "differ", 0.05), Comparison("lean", "original", "less", 0.05)))
    section = filled(tmp_path, experiment, {"lean": 0.1, "original": 0.1})
    assert {one.verdict.word for one in verdicts(section)} == {"not testable in this setting"}


def test_a_control_that_lost_for_another_reason_is_none(tmp_path: Path) -> None:
    pair = Comparison("lean", "original", "better", controls=(Loses("depth_only", "original"),))
    experiment = known((pair,))
    section = filled(tmp_path, experiment, {"lean": 0.9, "original": 0.8})
    for spec in specs(experiment, "small"):
        if spec.label["arm"] == "depth_only":
            short = replace(spec, recipe=changed(spec.recipe, basis=Basis("steps", 5)))
            written(folder(tmp_path, short), short, 0.5 + LEVELS[spec.seed])
    section = only_section(tmp_path, experiment)
    found, reason = word(section)
    assert found == "not testable in this setting"
    assert "depth_only against original says nothing. They differ in recipe.basis.amount" in reason


def test_scatter_is_pooled_over_arms_of_one_task(tmp_path: Path) -> None:
    from manyheads.spec.experiment import Arm

    twins = tuple(Arm(f"{arm.name}_other", arm.arch, "", {"limit": 500}) for arm in ARMS[:2])
    pairs = (Comparison("lean", "original", "better"), Comparison("lean_other", "original_other", "better"))
    experiment = replace(known(pairs, arms=(*ARMS, *twins)), pooled=True)
    section = filled(tmp_path, experiment, dict.fromkeys((arm.name for arm in (*ARMS, *twins)), 0.8))
    freedom = [one.effect.freedom for one in verdicts(section) if one.effect is not None]
    assert freedom == [6, 2]  # of four arms, and of two, with three seeds


def test_arms_that_the_experiment_does_not_have_are_no_designs_of_a_trend(tmp_path: Path) -> None:
    experiment = replace(known(()), trends=(Trend("params", "top1", "more", held=()),))
    values = {"original": 0.8, "lean": 0.7, "depth_only": 0.6, "split": 0.5}
    filled(tmp_path / "now", experiment, values)
    for spec in specs(experiment, "small"):  # the same experiment with another budget, in another folder
        other = replace(spec, recipe=changed(spec.recipe, basis=Basis("steps", 5)))
        written(folder(tmp_path / "then", other), other, values[spec.label["arm"]] + LEVELS[spec.seed])
    section = only_section(tmp_path, experiment)
    assert len(section.arms) == 8
    assert "over 4 designs" in first(section).verdict.found


def test_an_arms_name_belongs_to_the_runs_that_the_experiment_plans(tmp_path: Path) -> None:
    experiment = known((Comparison("lean", "original", "better"),))
    values = {"original": 0.8, "lean": 0.9}
    for spec in specs(experiment, "small"):  # found first, and trained on another budget
        if spec.label["arm"] in values:
            other = replace(spec, recipe=changed(spec.recipe, basis=Basis("steps", 5)))
            written(folder(tmp_path / "before", other), other, 0.2 + LEVELS[spec.seed])
    filled(tmp_path / "now", experiment, values)
    section = only_section(tmp_path, experiment)
    assert first(section).verdict.word == "holds"
    assert {arm.name: arm.values("top1")[0] for arm in section.arms if arm.name in values} == values
    assert "lean (before/demo-small/lean-s0)" in {arm.name for arm in section.arms}
