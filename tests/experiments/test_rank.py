"""The rank experiments keep equal what they say they keep equal, and at small size show what they are about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from manyheads.arch.controls import depths, head_dims, heads, inners
from manyheads.arch.count import params
from manyheads.experiments.demo import shortened
from manyheads.experiments.rank_depth import RANK_N, RANK_POSITIONS, RANK_RATE, RANK_REPLAY, RATES
from manyheads.experiments.rank_heads import RANK_AXES, RANK_DIM, RANK_FIG1, RANK_REGRESSION
from manyheads.experiments.registry import EXPERIMENTS, RANK
from manyheads.runs import Run, RunSpec
from manyheads.spec.arch import Arch
from manyheads.spec.experiment import Experiment, folder, specs
from manyheads.train.loop import train


def archs(experiment: Experiment, scale: str) -> dict[str, Arch]:
    """Its models by arm."""
    return {arm.name: arm.arch for arm in experiment.setting(scale).arms}


def shape(arch: Arch) -> tuple[int, int, int]:
    """Layers, heads, head_dim."""
    return depths(arch)[0], heads(arch)[0], head_dims(arch)[0]


def trained(tmp_path: Path, spec: RunSpec) -> dict[str, Any]:
    """The result of a run."""
    return train(Run.create(folder(tmp_path, spec), spec), device="cpu", progress="none")


def test_every_rank_experiment_is_registered_at_every_scale() -> None:
    for experiment in (EXPERIMENTS[name] for name in RANK):
        assert EXPERIMENTS[experiment.name] is experiment
        assert list(experiment.settings) == ["smoke", "laptop", "small", "paper"]
        assert len(experiment.setting("small").seeds) >= 3


def test_what_was_published_belongs_to_arms_of_the_papers_own_size() -> None:
    for experiment in (EXPERIMENTS[name] for name in RANK):
        assert experiment.printed.keys() <= archs(experiment, "paper").keys(), experiment.name
    assert len(RANK_FIG1.printed) == 63
    assert RANK_FIG1.printed["L1_d2_full"] == 0.0153
    assert RANK_FIG1.printed["L3_d2.5_r4"] == 0.223


@pytest.mark.parametrize("scale", ["smoke", "small", "paper"])
def test_a_row_of_the_figure_has_equal_parameters_and_a_column_equal_rank(scale: str) -> None:
    made = archs(RANK_FIG1, scale)
    rows: dict[str, set[int]] = {}
    columns: dict[str, set[int]] = {}
    for name, arch in made.items():
        depth, width, rank = name.split("_")
        rows.setdefault(f"{depth}_{width}", set()).add(params(arch).total)
        columns.setdefault(rank, set()).add(head_dims(arch)[0])
    assert all(len(found) == 1 for found in (*rows.values(), *columns.values()))


def test_the_laptop_grid_is_the_one_of_the_notes() -> None:
    assert {name: shape(arch) for name, arch in archs(RANK_FIG1, "laptop").items()} == {
        "L1_d2_full": (1, 1, 16),
        "L1_d2_half": (1, 2, 8),
        "L1_d2_quarter": (1, 4, 4),
        "L1_d2_r1": (1, 16, 1),
        "L1_d2.5_full": (1, 4, 16),
        "L1_d2.5_half": (1, 8, 8),
        "L1_d2.5_quarter": (1, 16, 4),
        "L1_d2.5_r1": (1, 64, 1),
    }
    assert len(specs(RANK_FIG1, "laptop")) == 24
    assert len(specs(RANK_FIG1, "small")) == 48
    assert shape(archs(RANK_FIG1, "paper")["L5_d3_r1"]) == (5, 4096, 1)


@pytest.mark.parametrize("scale", ["smoke", "small"])
def test_the_axes_hold_equal_what_they_say(scale: str) -> None:
    made = archs(RANK_AXES, scale)
    count = {name: params(arch).total for name, arch in made.items()}
    assert len({count[name] for name in ("whole", "original", "split2", "split4")}) == 1
    assert len({count[name] for name in ("fixed4", "wide4", "thin4")}) == 1
    assert len({inners(made[name])[0] for name in ("fixed4", "wide4", "thin4")}) == 1
    assert count["fixed2"] == count["wide2"]
    assert head_dims(made["fixed4"]) == head_dims(made["original"])
    assert heads(made["wide4"]) == heads(made["original"])


@pytest.mark.parametrize("scale", ["smoke", "small", "paper"])
def test_the_control_for_positions_has_their_parameters(scale: str) -> None:
    made = archs(RANK_POSITIONS, scale)
    for name in made:
        if "concat" in name:
            theirs, ours = params(made[name]).total, params(made[name.replace("concat", "matched")]).total
            assert ours == pytest.approx(theirs, rel=0.01), name


def test_a_step_trains_on_as_many_answers_for_every_length() -> None:
    for scale in ("smoke", "small"):
        assert len({spec.recipe.batch * spec.task.tokens for spec in specs(RANK_N, scale)}) == 1


def test_replay_differs_from_fresh_in_its_data_alone() -> None:
    fresh, replay = specs(RANK_REPLAY, "laptop")[:2]
    assert fresh.arch == replay.arch
    assert fresh.recipe == replay.recipe
    assert replay.task.replay == 25  # type: ignore[attr-defined]
    assert replay.recipe.basis.amount / 25 == 80  # epochs


def test_heads_of_the_regression_share_the_parameters() -> None:
    assert len({params(arch).total for arch in archs(RANK_REGRESSION, "smoke").values()}) == 1


@pytest.mark.parametrize("experiment", [EXPERIMENTS[name] for name in RANK], ids=RANK)
def test_it_trains_and_learns(experiment: Experiment, tmp_path: Path) -> None:
    """The smallest arm, two hundred steps: below what zeros score, with every score and with kappa."""
    spec = min(specs(shortened(experiment, 200), "laptop"), key=lambda one: params(one.arch).total)
    result = trained(tmp_path, spec)
    assert result["score"].keys() >= {"loss", "skill", "seen"}
    assert result["score"]["loss"] < result["trivial"]["loss"]
    assert result["better"] == ["loss", "down"]
    probed = Run.open(folder(tmp_path, spec)).spectra.read()
    assert {record["step"] for record in probed} == {0, 100, 200}


@pytest.mark.slow
def test_rank_decides_and_heads_of_the_same_rank_help(tmp_path: Path) -> None:
    """Seed 0 of the laptop grid: full rank learns, half rank does not, four times the half-rank heads do better."""
    chosen = {spec.label["arm"]: spec for spec in specs(RANK_FIG1, "laptop")[:8]}
    full, half, more = (
        trained(tmp_path, chosen[name])["score"] for name in ("L1_d2_full", "L1_d2_half", "L1_d2.5_half")
    )
    assert full["loss"] < 0.12
    assert half["loss"] > 0.45
    assert more["loss"] < half["loss"] - 0.08
    assert full["accuracy"] > 0.97
    assert half["accuracy"] < 0.8


def test_depth_is_compared_in_nothing_but_rate_and_warm_up() -> None:
    for scale in RANK_RATE.settings:
        runs = {spec.label["arm"]: spec for spec in specs(RANK_RATE, scale) if spec.seed == 0}
        assert len(runs) == 12
        for rank in ("full", "half"):
            three = [runs[f"L3_{rank}_{how}"] for how in (*(f"lr{rate:g}" for rate in RATES), "slow")]
            assert len({spec.arch for spec in three}) == 1
            assert [spec.recipe.lr for spec in three] == [*RATES, RATES[0]]
            assert [spec.recipe.schedule.warmup for spec in three] == [0.05, 0.05, 0.05, 0.25]
            assert runs[f"L1_{rank}_slow"].recipe == runs[f"L3_{rank}_slow"].recipe
            assert shape(runs[f"L1_{rank}_slow"].arch)[1:] == shape(three[0].arch)[1:]


def test_experiments_with_several_layers_warm_up_slowly_in_all_their_arms() -> None:
    """Where a run is shorter than the paper's: `rank_rate` says why."""
    several = set()
    for experiment in (RANK_FIG1, RANK_N, RANK_POSITIONS, RANK_DIM, RANK_REPLAY, RANK_AXES):
        for scale in ("laptop", "small", "paper"):
            deep = max(depths(arm.arch)[0] for arm in experiment.setting(scale).arms) > 1
            found = {spec.recipe.schedule.warmup for spec in specs(experiment, scale)}
            assert found == {0.25 if deep and scale != "paper" else 0.05}, (experiment.name, scale)
            several |= {experiment.name} if deep else set()
    assert several == {"rank_fig1", "rank_n", "rank_positions", "rank_dim", "rank_replay"}
