"""Verdicts of whole sections: what is comparable, what could have shown a loss, and what is corrected for what."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from manyheads.experiments.demo import ARMS, DEMO
from manyheads.report.claims_table import claims_table, compared, evidence, joint
from manyheads.report.comparable import held_equal
from manyheads.report.page import write
from manyheads.report.read_runs import Asked, Section, read_runs
from manyheads.report.section_summary import conclusion
from manyheads.report.section_verdicts import Judgement, verdicts
from manyheads.spec.comparison import Comparison, Growth, Loses, Trend
from manyheads.spec.errors import UserError
from manyheads.spec.experiment import Best, Experiment, folder, specs
from manyheads.spec.recipe import Basis
from tests.specs import changed, run_spec

from .made import put

SEEDS = (0, 1, 2)
GUESS = 0.1


def own(root: Path, arm: str, values: dict[int, float], **recipe: object) -> None:
    """Finished runs that belong to no experiment, as `train demo:ARM --out arm-sSEED` leaves them."""
    arch = next(one.arch for one in ARMS if one.name == arm)
    setting = DEMO.setting("smoke")
    assert setting.task is not None
    for seed, value in values.items():
        spec = run_spec(arch, setting.task, changed(setting.recipes["steps"], **recipe), seed)
        put(root / f"{arm}-s{seed}", spec, value, guess=GUESS)


def spread(value: float) -> dict[int, float]:
    """Three seeds around a value."""
    return {0: value, 1: value + 0.002, 2: value - 0.001}


def section(
    root: Path, values: dict[str, float], *pairs: Comparison, seeds: tuple[int, ...] = SEEDS, **fields: object
) -> Section:
    """The demo at scale small with its own comparisons, each arm around its value."""
    setting = replace(DEMO.setting("smoke"), seeds=seeds, arms=tuple(arm for arm in ARMS if arm.name in values))
    known = replace(DEMO, settings={"small": setting}, comparisons=pairs, **fields)  # type: ignore[arg-type]
    return filled(root, known, values)


def filled(root: Path, known: Experiment, values: dict[str, float]) -> Section:
    """The finished runs of an experiment, each around its arm's value."""
    for spec in specs(known, "small"):
        put(folder(root, spec), spec, values[spec.label["arm"]] + 0.001 * math.sin(7 * spec.seed), guess=GUESS)
    return read_runs(root, {known.name: known}).sections[0]


def only(found: list[Judgement]) -> Judgement:
    """The one judgement."""
    assert len(found) == 1
    return found[0]


# -------------------------------------------------------------------------------------------------------- own runs
def test_arms_of_other_budgets_get_no_verdict_and_the_fields_are_named(tmp_path: Path) -> None:
    own(tmp_path, "original", spread(0.6), basis=Basis("steps", 5))
    own(tmp_path, "lean", spread(0.85), basis=Basis("steps", 40))
    here = read_runs(tmp_path, {}).sections[0]
    one = only(verdicts(here))
    assert one.verdict.word == "not comparable"
    assert "recipe.basis.amount" in one.verdict.reason
    assert one.held_equal == held_equal(here.arms) == "nothing (5 steps, 40 steps)"
    assert not any("holds" in line or "better" in line for line in conclusion(here))


@pytest.mark.parametrize("field", ["batch", "task"])
def test_arms_of_another_batch_or_task_get_no_verdict(tmp_path: Path, field: str) -> None:
    own(tmp_path, "lean", spread(0.85), **({"batch": 32} if field == "batch" else {}))
    if field == "batch":
        own(tmp_path, "original", spread(0.6))
    else:
        spec = specs(DEMO, "smoke")[0]
        for seed in SEEDS:
            put(
                tmp_path / f"original-s{seed}",
                run_spec(spec.arch, replace(spec.task, limit=100), spec.recipe, seed),  # type: ignore[arg-type]
                0.6,
            )
    one = only(verdicts(read_runs(tmp_path, {}).sections[0]))
    assert one.verdict.word == "not comparable"
    assert {"batch": "recipe.batch", "task": "task.limit"}[field] in one.verdict.reason


def test_another_rate_is_no_obstacle(tmp_path: Path) -> None:
    own(tmp_path, "lean", spread(0.85), lr=1e-3)
    own(tmp_path, "original", spread(0.6))
    assert only(verdicts(read_runs(tmp_path, {}).sections[0])).verdict.word == "better"


def test_own_runs_are_better_or_worse_in_a_metric(tmp_path: Path) -> None:
    own(tmp_path, "original", spread(0.85))
    own(tmp_path, "lean", spread(0.60))
    here = read_runs(tmp_path, {}).sections[0]
    one = only(verdicts(here))
    assert (one.verdict.word, one.held_equal) == ("worse", "steps")
    assert "lean against original: worse in top1." in conclusion(here)


@pytest.mark.parametrize(
    ("expect", "margin", "word"),
    [
        ("no_loss", 0.01, "does not hold"),
        ("better", 0.0, "does not hold"),
        ("equal", 0.3, "holds"),
        ("no_loss", 0.3, "holds"),
    ],
)
def test_own_runs_are_tested_for_what_is_asked(tmp_path: Path, expect: str, margin: float, word: str) -> None:
    own(tmp_path, "original", spread(0.85))
    own(tmp_path, "lean", spread(0.60))
    asked = Asked(expect=expect, margin=margin)  # type: ignore[arg-type]
    assert only(verdicts(read_runs(tmp_path, {}, asked).sections[0])).verdict.word == word


def test_any_arm_can_be_the_one_to_compare_with(tmp_path: Path) -> None:
    for name, value in (("split", 0.7), ("lean", 0.8), ("depth_only", 0.75)):
        own(tmp_path, name, spread(value))
    found = verdicts(read_runs(tmp_path, {}, Asked("depth_only")).sections[0])
    assert {one.pair.arm: one.verdict.word for one in found} == {"split": "worse", "lean": "better"}
    largest = verdicts(read_runs(tmp_path, {}).sections[0])
    assert {one.pair.against for one in largest} == {"lean"}  # the most parameters, where none is called original
    with pytest.raises(UserError, match="no arm is called 'depth'; did you mean depth_only"):
        write(tmp_path, tmp_path / "page.html", asked=Asked("depth"))


# ------------------------------------------------------------------------------------------------------ sensitivity
@pytest.mark.parametrize("expect", ["no_loss", "equal"])
def test_two_arms_at_chance_are_not_testable(tmp_path: Path, expect: str) -> None:
    pair = Comparison("lean", "original", expect, 0.05)  # type: ignore[arg-type]
    one = only(verdicts(section(tmp_path, {"original": 0.102, "lean": 0.101}, pair)))
    assert one.verdict.word == "not testable in this setting"
    assert "lean and original do not do clearly better than a constant guess" in one.verdict.reason


def test_the_better_arm_must_have_learnt(tmp_path: Path) -> None:
    pair = Comparison("lean", "original", "better")
    at_chance = only(verdicts(section(tmp_path / "a", {"original": 0.02, "lean": 0.11}, pair)))
    assert at_chance.verdict.word == "not testable in this setting"
    learnt = only(verdicts(section(tmp_path / "b", {"original": 0.101, "lean": 0.8}, pair)))
    assert learnt.verdict.word == "holds"  # the other may guess


def test_a_claim_about_lost_depth_needs_a_control_that_loses(tmp_path: Path) -> None:
    pair = Comparison("lean", "original", "no_loss", 0.01, controls=(Loses("depth_only", "original"),))
    level = {"original": 0.85, "lean": 0.85}
    insensitive = only(verdicts(section(tmp_path / "a", level | {"depth_only": 0.849}, pair)))
    assert insensitive.verdict.word == "not testable in this setting"
    assert "depth_only was not shown to lose by over 1.0 points" in insensitive.verdict.reason
    assert only(verdicts(section(tmp_path / "b", level | {"depth_only": 0.80}, pair))).verdict.word == "holds"
    missing = section(tmp_path / "c", level | {"depth_only": 0.80}, pair)
    gone = replace(missing, arms=[arm for arm in missing.arms if arm.name != "depth_only"])
    assert "Without finished runs of depth_only" in only(verdicts(gone)).verdict.reason


# ------------------------------------------------------------------------------------------- several comparisons
def test_primary_comparisons_are_decided_alone_and_the_others_by_holm(tmp_path: Path) -> None:
    values = {"original": 0.8, "lean": 0.8, "depth_only": 0.8, "split": 0.8}
    here = section(tmp_path, values)
    arms = {arm.name: arm for arm in here.arms}
    weak = {0: 0.04, 1: 0.05, 2: 0.065}  # p is 0.02: clear alone, not among three
    run_of = {name: {run.seed: run for run in arm.runs} for name, arm in arms.items()}
    for seed, by in weak.items():
        run = run_of["lean"][seed]
        run.measured.scores["top1"] = run_of["original"][seed].measured.scores["top1"] + by
    pairs = [Comparison("lean", other, "more") for other in ("original", "depth_only", "split")]
    alone = replace(
        here, experiment=replace(here.experiment, comparisons=(replace(pairs[0], primary=True), *pairs[1:]))
    )  # type: ignore[type-var]
    among = replace(here, experiment=replace(here.experiment, comparisons=tuple(pairs)))  # type: ignore[type-var]
    assert verdicts(alone)[0].effect.above(0.0) < 0.05  # type: ignore[union-attr]
    assert verdicts(alone)[0].verdict.word == "holds"
    first = verdicts(among)[0]
    assert first.verdict.word == "within noise"
    assert "not among 3 comparisons" in first.verdict.reason


def test_scatter_is_that_of_all_arms_only_where_the_experiment_declares_it(tmp_path: Path) -> None:
    pair = Comparison("lean", "original", "better")
    values = {"original": 0.8, "lean": 0.81, "depth_only": 0.7, "split": 0.75}
    here = section(tmp_path, values, pair)
    assert not only(verdicts(here)).effect.pooled  # type: ignore[union-attr]
    pooled = replace(here, experiment=replace(here.experiment, pooled=True))  # type: ignore[type-var]
    found = only(verdicts(pooled)).effect
    assert found is not None
    assert found.pooled
    assert found.freedom == 6


def test_a_claim_about_all_pairs_needs_all_of_them(tmp_path: Path) -> None:
    assert joint(["holds", "holds"]) == "holds"
    assert joint(["holds", "does not hold", "within noise"]) == "does not hold"
    assert joint(["holds", "not testable in this setting"]) == "not testable in this setting"
    assert joint(["holds", "within noise"]) == "within noise"
    pairs = [
        Comparison(arm, "original", "no_loss", 0.01, "L9", primary=True) for arm in ("lean", "depth_only", "split")
    ]
    here = section(tmp_path, {"original": 0.8, "lean": 0.8, "depth_only": 0.7, "split": 0.8}, *pairs)
    row = claims_table(evidence([here])).rows[0]
    assert row[2].text == "small: does not hold, by its primary comparisons"


def test_a_comparison_shows_the_smallest_difference_that_could_have_been_seen(tmp_path: Path) -> None:
    here = section(tmp_path, {"original": 0.8, "lean": 0.8}, Comparison("lean", "original", "better"))
    values = {0: 0.0, 1: 0.004, 2: -0.004}
    for run in here.arms[1].runs:
        run.measured.scores["top1"] += values[run.seed]
    one = only(verdicts(here))
    cells = compared(one, here)
    assert one.effect is not None
    assert cells[2].key == pytest.approx(one.effect.visible)
    assert cells[2].text.endswith("points")


# ------------------------------------------------------------------------------- gains, best values, trends, growth
def test_two_gains_are_compared_as_one_difference(tmp_path: Path) -> None:
    pair = Comparison("lean", "original", "better", beyond=("split", "depth_only"))
    values = {"original": 0.5, "lean": 0.8, "depth_only": 0.5, "split": 0.6}
    one = only(verdicts(section(tmp_path / "a", values, pair)))
    assert one.effect is not None
    assert one.effect.difference == pytest.approx(0.2)
    assert one.verdict.word == "holds"
    assert "lean against original beyond split against depth_only" in one.verdict.found
    reverse = only(verdicts(section(tmp_path / "b", values | {"split": 0.9}, pair)))
    assert reverse.verdict.word == "does not hold"


def test_the_best_value_of_a_run_that_overfits_can_be_compared(tmp_path: Path) -> None:
    here = section(tmp_path, {"original": 0.8, "lean": 0.8}, Comparison("lean", "original", "better", metric="best"))
    for arm, best in zip(here.arms, (0.85, 0.9), strict=True):
        for run in arm.runs:
            run.measured.curve[3] = (40.0, best)
    one = only(verdicts(here))
    assert one.effect is not None
    assert one.effect.difference == pytest.approx(0.05)


def test_a_comparison_is_made_at_its_scales_alone(tmp_path: Path) -> None:
    pair = Comparison("lean", "original", "no_loss", 0.01, claim="L10", scales=("paper",))
    assert verdicts(section(tmp_path, {"original": 0.8, "lean": 0.8}, pair)) == []


def test_the_unit_of_a_trend_is_the_design(tmp_path: Path) -> None:
    """More seeds of the same four designs are no further evidence."""
    values = {"original": 0.8, "lean": 0.7, "depth_only": 0.6, "split": 0.5}
    trend = Trend("params", "top1", "more", "M3", held=())
    few, many = (
        verdicts(section(tmp_path / str(n), values, seeds=tuple(range(n)), trends=(trend,)))[0] for n in (3, 12)
    )
    assert (few.verdict.word, many.verdict.word) == ("within noise", "within noise")
    assert few.effect is not None
    assert many.effect is not None
    assert (few.effect.low, few.effect.high) == (many.effect.low, many.effect.high)
    assert few.effect.low >= -1
    assert few.effect.high <= 1
    assert "over 4 designs" in few.verdict.found


def test_a_best_rate_at_the_edge_or_chosen_on_what_is_reported_is_flagged(tmp_path: Path) -> None:
    arms = tuple(
        replace(arm, name=f"{arm.name}_x{factor}", recipe={"lr": 1e-3 * factor})
        for arm in ARMS[:2]
        for factor in (1, 2, 4)
    )
    bests = tuple(Best(arm.name, tuple(f"{arm.name}_x{factor}" for factor in (1, 2, 4))) for arm in ARMS[:2])
    setting = replace(DEMO.setting("smoke"), seeds=(0, 1, 2, 3), arms=arms, bests=bests)
    known = replace(DEMO, settings={"small": setting}, comparisons=(Comparison("lean_x2", "original_x2", "better"),))
    here = filled(tmp_path, known, {arm.name: 0.8 + 0.01 * i for i, arm in enumerate(arms)})
    best = verdicts(here)[1]
    assert best.pair.name == "lean at its best (lean_x4) against original at its best (original_x4)"
    assert "was chosen on the samples that are reported" in best.verdict.reason
    assert "lean at its best (lean_x4)" in best.verdict.reason
    assert "is at the edge of what was tried" in best.verdict.reason
    for arm in here.arms:
        for run in arm.runs:
            run.measured.scores["valid_top1"] = 1.0 if arm.name.endswith("x2") else 0.5
    kept = verdicts(here)[1]
    assert kept.pair.name == "lean at its best (lean_x2) against original at its best (original_x2)"
    assert "edge" not in kept.verdict.reason
    assert "samples that are reported" not in kept.verdict.reason


def test_growth_is_judged_by_what_each_size_needs(tmp_path: Path) -> None:
    from manyheads.arch.families import nearest_neighbor
    from manyheads.experiments.rank_parts import laptop, task
    from manyheads.spec.experiment import Arm, Setting

    sizes = {d: tuple(f"d{d}_h{2**i}" for i in range(8)) for d in (4, 5, 6, 7)}
    arms = tuple(
        Arm(name, nearest_neighbor(d, 1, int(name.rpartition("h")[2]), 2, 8, tokens=3), "", {"dim": d})
        for d, names in sizes.items()
        for name in names
    )
    recipe = laptop(10, 8, 0.01)
    growth = Growth("heads needed", sizes, claim="A2", primary=True)
    setting = Setting(arms, (0, 1, 2), task(4, 2), {"steps": recipe}, growths=(growth,))
    known = Experiment("grows", "t", "q", {"small": setting})
    for spec in specs(known, "small"):
        dim, heads = int(spec.label["arm"][1]), int(spec.label["arm"].rpartition("h")[2])
        needs = math.exp(1.1 * (dim - 3)) * (1 + 0.01 * spec.seed)
        put(folder(tmp_path, spec), spec, 1.0 / (1.0 + heads / needs), guess=1.0)  # half where heads are what it needs
    here = read_runs(tmp_path, {"grows": known}).sections[0]
    one = only(verdicts(here))
    assert one.verdict.word == "holds"
    assert "heads for 50% of a constant guess's error, by size: 4: 3" in one.verdict.found


def growing(root: Path, needs: Callable[[int], float], *, first: int = 1, full: float = 0.0) -> Judgement:
    """The verdict on a growth whose sizes 4 to 7 need so many heads, of `first` and its doubles, and of which one arm a
    size has the error `full`."""
    from manyheads.arch.families import nearest_neighbor
    from manyheads.experiments.rank_parts import laptop, task
    from manyheads.spec.experiment import Arm, Setting

    sizes = {d: tuple(f"d{d}_h{first * 2**i}" for i in range(8)) for d in (4, 5, 6, 7)}
    names = [*(name for group in sizes.values() for name in group), *(f"d{d}_full" for d in sizes)]
    arms = tuple(
        Arm(
            name,
            nearest_neighbor(int(name[1]), 1, int(name[4:]) if "_h" in name else 1, 2, 8, tokens=3),
            "",
            {"dim": 8},
        )
        for name in names
    )
    growth = Growth("heads needed", sizes, claim="A2", primary=True, enough={d: f"d{d}_full" for d in sizes})
    setting = Setting(arms, SEEDS, task(4, 2), {"steps": laptop(10, 8, 0.01)}, growths=(growth,))
    known = Experiment("grows", "t", "q", {"small": setting})
    for spec in specs(known, "small"):
        name = spec.label["arm"]
        some = needs(int(name[1])) * (1 + 0.01 * spec.seed)
        put(folder(root, spec), spec, 1.0 / (1.0 + int(name[4:]) / some) if "_h" in name else full, guess=1.0)
    return only(verdicts(read_runs(root, {"grows": known}).sections[0]))


def test_what_does_not_grow_does_not_grow_exponentially(tmp_path: Path) -> None:
    falls = growing(tmp_path / "falls", lambda d: 40 * math.exp(-0.7 * (d - 4)))
    assert falls.verdict.word == "does not hold"  # a falling exponential fits closer than a falling power
    assert "grow by a factor of 0.497" in falls.verdict.found
    assert growing(tmp_path / "flat", lambda d: 6.0).verdict.word == "does not hold"
    assert growing(tmp_path / "grows", lambda d: 3 * math.exp(1.0 * (d - 4))).verdict.word == "holds"


def test_growth_is_not_testable_where_some_seeds_need_more_or_fewer_than_were_tried(tmp_path: Path) -> None:
    def needs(d: int) -> float:
        return 3 * math.exp(1.0 * (d - 4))

    more = growing(tmp_path / "more", lambda d: needs(d) * (128 / needs(7)) / 1.015)  # of three seeds the last
    assert more.verdict.word == "not testable in this setting"
    assert "size 7 (1 of 3 seeds) the heads that are needed lie outside" in more.verdict.reason
    fewer = growing(tmp_path / "fewer", needs, first=16)
    assert "At size 4" in fewer.verdict.reason  # all of them need fewer than 16


def test_growth_is_not_testable_where_nothing_reaches_the_error(tmp_path: Path) -> None:
    one = growing(tmp_path, lambda d: 3 * math.exp(1.0 * (d - 4)), full=0.6)
    assert one.verdict.word == "not testable in this setting"
    assert "d4_full was not shown to reach 50%" in one.verdict.reason


def test_one_of_several_primary_comparisons_is_refuted_by_holms_rule(tmp_path: Path) -> None:
    values = {"original": 0.8, "lean": 0.8, "depth_only": 0.8, "split": 0.8}
    pairs = [Comparison(arm, "original", "more", claim="A3", primary=True) for arm in ("lean", "depth_only", "split")]
    here = section(tmp_path, values, *pairs)
    runs = {arm.name: {run.seed: run for run in arm.runs} for arm in here.arms}
    for seed, by in {0: -0.04, 1: -0.05, 2: -0.065}.items():  # p is 0.02: less alone, not among three
        runs["lean"][seed].measured.scores["top1"] = runs["original"][seed].measured.scores["top1"] + by
    first = verdicts(here)[0]
    assert first.effect is not None
    assert first.effect.below(0.0) < 0.05
    assert first.verdict.word == "within noise"
    alone = replace(here, experiment=replace(here.experiment, comparisons=(pairs[0],)))  # type: ignore[type-var]
    assert verdicts(alone)[0].verdict.word == "does not hold"
