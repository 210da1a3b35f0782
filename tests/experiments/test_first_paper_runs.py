"""One smoke run of every kind of task is trained or measured; what is finished under one name is finished under
another."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from manyheads.arch.families import nearest_neighbor
from manyheads.experiments.crammed_bert import TABLE1, TABLE1_GLUE, classifier
from manyheads.experiments.registry import EXPERIMENTS, FIRST, RANK
from manyheads.runs import Run, RunSpec, find
from manyheads.spec.datasets import GLUE_SETS
from manyheads.spec.errors import UserError
from manyheads.spec.experiment import Arm, Experiment, Pretraining, Setting, folder, specs
from manyheads.spec.measurements import Footprint, Measurement
from manyheads.spec.recipe import Basis, Recipe
from manyheads.spec.text import Glue
from manyheads.sweep.plan import adopt, with_weights
from manyheads.tasks import check, from_dict, measure, open_task
from manyheads.train.loop import train
from tests.specs import changed
from tests.tasks.glue_files import write

# experiment and arm for every kind of task
# fmt: off
KINDS = {
    "Images": ("table4", "tnt_b_lean"), "LanguageModel": ("table2", "lean"), "MaskedLanguage": ("table1", "lean"),
    "ListOps": ("table3", "listops_L1_h4"), "ByteText": ("table3", "text_L1_h4"),
    "Retrieval": ("table3", "retrieval_L1_h4"), "PixelRow": ("table3", "image_L1_h4"),
    "Pathfinder": ("table3", "pathfinder_L1_h4"), "HeadsKappa": ("theorem", "attention_h12"),
    "Speed": ("latency", "vit_b_lean"), "Footprint": ("memory", "gpt2_lean_bf16"),
    "WrittenDown": ("constructions", "half"), "NearestNeighbor": ("rank_fig1", "L1_d2_half"),
    "Regression": ("rank_regression", "h8"),
}
# fmt: on
SMOKE = [name for name in (*RANK, *FIRST) if name != "table1_glue"]


def trained(root: Path, spec: RunSpec, **how: Any) -> dict[str, Any]:
    """The result of a run, its data made below `root`."""
    return train(Run.create(folder(root, spec), spec), device="cpu", progress="none", root=root / "data", **how)


def one(name: str, arm: str, **recipe: Any) -> RunSpec:
    """The first smoke run of an arm, with fields of its recipe changed."""
    spec = next(spec for spec in specs(EXPERIMENTS[name], "smoke") if spec.label["arm"] == arm)
    return replace(spec, recipe=changed(spec.recipe, **recipe))


def test_every_kind_of_task_is_among_these() -> None:
    with_scale = {name for name in EXPERIMENTS if "smoke" in EXPERIMENTS[name].settings and not EXPERIMENTS[name].run}
    assert with_scale == set(SMOKE)
    assert {type(spec.task).__name__ for name in SMOKE for spec in specs(EXPERIMENTS[name], "smoke")} == KINDS.keys()


@pytest.mark.parametrize("kind", KINDS)
def test_a_smoke_run_of_every_task_ends_with_a_score(kind: str, tmp_path: Path) -> None:
    spec = one(*KINDS[kind])
    assert type(spec.task).__name__ == kind
    result = trained(tmp_path, spec)
    run = Run.open(folder(tmp_path, spec))
    headline, direction = result["better"]
    assert math.isfinite(result["score"][headline])
    assert direction in ("up", "down")
    assert run.state == "done"
    if isinstance(spec.task, Measurement):
        assert result["steps"] == 0
        assert not run.model.exists()
    else:
        assert result["steps"] == spec.recipe.basis.amount or spec.recipe.basis.kind != "steps"
        assert {record["step"] for record in run.spectra.read()} >= {0, result["steps"]}


@pytest.mark.slow  # 344 runs: four minutes of CPU
@pytest.mark.parametrize("name", SMOKE)
def test_every_smoke_run_ends_with_a_score(name: str, tmp_path: Path) -> None:
    for spec in specs(EXPERIMENTS[name], "smoke"):
        result = trained(tmp_path, spec)
        assert math.isfinite(result["score"][result["better"][0]]), spec.label


def test_the_probe_looks_closer_where_an_experiment_asks(tmp_path: Path) -> None:
    detailed = one("fig4", "L8_m1", basis={"kind": "steps", "amount": 2})
    trained(tmp_path, detailed)
    last = Run.open(folder(tmp_path, detailed)).spectra.read()[-1]
    assert last["detail"]["mlp_hidden_kappa"] > 1
    slopes = one("correlation", "depth_only", basis={"kind": "steps", "amount": 1})
    trained(tmp_path, slopes)
    last = Run.open(folder(tmp_path, slopes)).spectra.read()[-1]
    assert last["jacobian"]["kappa"] > 1
    assert 0 < last["head_correlation"] < 1


# --------------------------------------------------------------------------------------------------------- measurements
def test_drawn_heads_are_conditioned_as_the_formula_says_and_attention_is_not(tmp_path: Path) -> None:
    found = {
        arm: trained(tmp_path, one("theorem", f"{arm}_h96"))["score"] for arm in ("normal", "attention", "formula")
    }
    assert found["normal"]["kappa"] == pytest.approx(found["normal"]["predicted"], rel=0.02)
    assert found["normal"]["kappa"] < found["formula"]["kappa"] < 1.1 * found["normal"]["kappa"]
    assert found["attention"]["kappa"] > 5 * found["formula"]["kappa"]
    assert found["attention"]["deficient"] == 0
    record = Run.open(folder(tmp_path, one("theorem", "normal_h96"))).spectra.read()[0]
    assert math.exp(record["log_kappa"]) == pytest.approx(found["normal"]["kappa"])


def test_a_measurement_is_the_same_twice_and_another_with_another_seed(tmp_path: Path) -> None:
    spec = one("theorem", "normal_h6")
    again = [trained(tmp_path / name, spec)["score"] for name in "ab"]
    assert again[0] == again[1]
    assert trained(tmp_path, replace(spec, seed=1))["score"] != again[0]


def test_low_rank_heads_fail_where_full_rank_ones_do_not(tmp_path: Path) -> None:
    found = {
        arm: trained(tmp_path, one("constructions", arm))["score"]["loss"] for arm in ("exact_N256", "full", "half")
    }
    assert found["exact_N256"] == 0
    assert found["full"] < 0.02
    assert found["half"] > 0.4


@pytest.mark.parametrize("kind", ["fp32", "bf16"])
def test_tracked_memory_is_what_the_formula_counts(kind: str) -> None:
    arm = next(arm for arm in EXPERIMENTS["memory"].setting("small").arms if arm.name == f"vit_l_lean_{kind}")
    import torch

    task = Footprint(**arm.task)
    assert isinstance(task, Footprint)
    score = measure(task, arm.arch, 0, torch.device("cpu")).score
    assert score["memory"] == pytest.approx(score["counted"], rel=0.06)
    assert measure(task, arm.arch, 1, torch.device("cpu")).score == score


def test_a_measurement_has_no_batches_and_refuses_what_it_cannot_measure() -> None:
    import torch

    vit = EXPERIMENTS["table4"].setting("smoke").arms[0].arch
    with pytest.raises(UserError, match="no batches"):
        open_task(from_dict({"is": "Speed"}), torch.device("cpu"), 0, 1)
    for name in ("HeadsKappa", "WrittenDown"):
        with pytest.raises(UserError, match="take nearest_neighbor"):
            check(from_dict({"is": name}), vit)
    with pytest.raises(UserError, match="gives 3 tokens"):
        check(from_dict({"is": "WrittenDown"}), nearest_neighbor(4, 1, 1, 4, 4, tokens=5))
    for fields in (
        {"is": "HeadsKappa", "entries": "cauchy"},
        {"is": "WrittenDown", "network": "deep"},
        {"is": "Footprint", "precision": "fp8"},
        {"is": "Speed", "batch": 0},
    ):
        with pytest.raises(UserError, match="; write"):
            from_dict(fields)


# ----------------------------------------------------------------------------------------------- one run, several names
def test_what_is_finished_for_one_experiment_is_finished_for_another(tmp_path: Path) -> None:
    spec = one("theorem", "formula_h6")
    other = replace(spec, label=spec.label | {"experiment": "elsewhere"})
    assert other.id == spec.id
    assert adopt(tmp_path, [spec, other]) == []
    result = trained(tmp_path, spec)
    assert adopt(tmp_path, [spec, other]) == [folder(tmp_path, other)]
    run = Run.open(folder(tmp_path, other))
    assert run.result == result
    assert run.spec.label["trained_in"] == "theorem-smoke/formula_h6-s0"
    assert run.spectra.read() == Run.open(folder(tmp_path, spec)).spectra.read()
    assert adopt(tmp_path, [spec, other]) == []
    assert all(found.problem is None for found in find(tmp_path))


def test_a_run_that_has_begun_is_left_alone_and_what_a_kill_left_is_not(tmp_path: Path) -> None:
    spec = one("theorem", "formula_h6")
    trained(tmp_path, spec)
    begun, left = (replace(spec, label=spec.label | {"experiment": name}) for name in ("begun", "left"))
    run = Run.create(folder(tmp_path, begun), begun)
    (run.checkpoints / "step").mkdir(parents=True)
    torn = Run.create(folder(tmp_path, left), left)
    torn.spectra.append({"step": 0})
    assert adopt(tmp_path, [begun, left]) == [folder(tmp_path, left)]
    assert Run.open(folder(tmp_path, left)).spectra.read() == Run.open(folder(tmp_path, spec)).spectra.read()
    assert Run.open(folder(tmp_path, begun)).result is None


def test_figures_share_the_runs_they_have_in_common() -> None:
    ids = {
        name: {spec.id for spec in specs(EXPERIMENTS[name], "small")} for name in ("fig2", "fig3", "fig5", "controls")
    }
    assert len(ids["fig2"] & ids["fig3"]) == 9 * 3
    assert len(ids["fig5"] & ids["fig3"]) >= 3
    table4 = {spec.id for spec in specs(EXPERIMENTS["table4"], "small")}
    assert len(ids["controls"] & table4) == 3 * 3  # original, lean and depth_only, on equal steps


# ---------------------------------------------------------------------------------------------------------- fine-tuning
def test_fine_tuning_starts_from_what_pretraining_came_to(tmp_path: Path) -> None:
    toy = TABLE1.setting("smoke")
    short = {
        "tokens": replace(toy.recipes["tokens"], basis=Basis("steps", 2), probe_every=0),
        "seconds": toy.recipes["seconds"],
    }
    two = replace(toy, arms=toy.arms[:2], recipes=short)
    pretraining = replace(TABLE1, settings={"smoke": two}, comparisons=(), printed={})
    task = Glue(tokenizer="stories", tokens=32, weights="0" * 64)
    tuned = tuple(
        Arm(f"{arm.name}_rte", classifier(arm.arch, 2), "", {"task": "rte"}, start=arm.name) for arm in toy.arms[:2]
    )
    recipe = Recipe(batch=8, basis=Basis("steps", 2))
    settings = {"smoke": Setting(tuned, (0,), task, {"epochs": recipe})}
    tuning = Experiment("table1_glue", "", "", settings, after=Pretraining("table1", "tokens"))
    runs = specs(tuning, "smoke")
    with pytest.raises(UserError, match="original-tokens-s0 is not finished"):
        with_weights(tmp_path, runs, tuning, pretraining)
    for spec in specs(pretraining, "smoke"):
        if spec.label["basis"] == "tokens":
            trained(tmp_path, spec)
    write(tmp_path / "data", GLUE_SETS["rte"], train=32, held=16)
    ready = with_weights(tmp_path, runs, tuning, pretraining)
    assert [spec.label["arm"] for spec in ready] == ["original_rte", "lean_rte"]
    assert len({spec.task.weights for spec in ready} | {"0" * 64}) == 3
    assert with_weights(tmp_path, runs, tuning, pretraining) == ready  # called again, nothing happens
    assert trained(tmp_path, ready[0])["steps"] == 2
    assert TABLE1_GLUE.setting("small").task.weights == "0" * 64  # unknown until then
