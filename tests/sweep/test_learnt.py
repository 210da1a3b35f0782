"""Times that are learnt from finished runs are near those that were measured, and say where they come from."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from manyheads.runs import RunFolder, find
from manyheads.sweep.forecast import forecast, sharing
from manyheads.sweep.jobs import Job
from manyheads.sweep.learnt import Learnt, Size, layers

EVIDENCE = Path(__file__).resolve().parents[2] / "evidence"
H200 = "NVIDIA H200"


@pytest.fixture(scope="module")
def ranks() -> list[RunFolder]:
    """The 108 runs of the rank experiment over lengths."""
    return find(EVIDENCE / "rank_n_small_h200.jsonl.xz")


def size(run: RunFolder) -> Size:
    """What its time depends on."""
    assert run.result
    assert run.spec
    return Size(run.result["flops"], run.result["steps"], layers(run.spec))


def learnt(runs: list[RunFolder], kind: str = "cuda", name: str | None = H200) -> Learnt:
    """What they say."""
    return Learnt(runs, kind, sharing(1, kind).speed, name=name)


def errors(runs: list[RunFolder], group: Callable[[RunFolder], object]) -> list[float]:
    """The relative error of every run's forecast by the runs of other groups, sorted."""
    found = []
    for key in dict.fromkeys(map(group, runs)):
        others = learnt([run for run in runs if group(run) != key])
        for run in runs:
            if group(run) == key:
                assert run.spec
                assert run.result
                guess = others.guess(run.spec, size(run))
                assert guess is not None
                found.append(abs(guess.seconds / run.result["timing"]["seconds"] - 1))
    return sorted(found)


def arm(run: RunFolder) -> str:
    """Its arm, such as N16_L1_full: the length, the number of layers, the rank."""
    assert run.spec
    return str(run.spec.label["arm"])


@pytest.mark.parametrize(
    ("left_out", "group", "least"),
    [
        ("run", lambda run: run.path, 0.15),
        ("arm", arm, 0.07),
        ("length", lambda run: arm(run).split("_")[0], 0.11),
        ("number of layers", lambda run: arm(run).split("_")[1], 0.10),
    ],
)
def test_the_median_error_on_the_rank_runs_is_far_below_30_percent(
    ranks: list[RunFolder], left_out: str, group: Callable[[RunFolder], object], least: float
) -> None:
    assert len(ranks) == 108
    found = errors(ranks, group)
    print(
        f"every {left_out} left out: median {statistics.median(found):.3f}, nine of ten {found[97]:.3f}, {found[-1]:.2f}"
    )
    assert statistics.median(found) < least < 0.3


def test_without_finished_runs_the_same_times_are_wrong_by_most_of_themselves(ranks: list[RunFolder]) -> None:
    wrong = [abs(size(run).counted("cuda", 1) / run.result["timing"]["seconds"] - 1) for run in ranks if run.result]
    assert statistics.median(wrong) > 0.9


def test_a_forecast_says_where_it_comes_from(ranks: list[RunFolder], tmp_path: Path) -> None:
    spec = ranks[0].spec
    assert spec is not None
    same, like = (
        Job(tmp_path / "same", replace(spec, seed=77)),
        Job(tmp_path / "like", replace(spec, recipe=replace(spec.recipe, batch=32))),
    )
    told = forecast([same, like], device="cuda", known=ranks, gpu=H200)
    assert told[0].source == "3 finished runs of the same arm"
    measured = [run.result["timing"]["seconds"] for run in ranks if run.result and arm(run) == spec.label["arm"]]
    assert told[0].seconds == statistics.median(measured)
    assert "finished runs like N" in told[1].source
    assert 0.4 * told[0].seconds < (told[1].seconds or 0) <= told[0].seconds
    (counted,) = forecast([like], device="cuda")
    assert counted.source == "their operations and layers alone"
    at_speed = forecast([same, like], device="cuda", tflops=5.0, known=ranks, gpu=H200)
    assert [each.source for each in at_speed] == [told[0].source, "their operations at --tflops"]


def test_runs_on_a_gpu_say_nothing_about_a_processor(ranks: list[RunFolder]) -> None:
    run = ranks[0]
    assert run.spec is not None
    assert learnt(ranks, "cpu", None).guess(run.spec, size(run)) is None
    assert learnt(ranks, "cpu", None).places == {}


def test_another_gpu_is_asked_last_and_named(ranks: list[RunFolder]) -> None:
    run = ranks[0]
    assert run.spec is not None
    assert run.result is not None
    guess = learnt(ranks, name="NVIDIA A100").guess(run.spec, size(run))
    assert guess is not None
    assert guess.source.endswith(f"on {H200}")
    faster = {**run.result, "machine": {"device": "NVIDIA A100"}, "timing": {"seconds": 1.0}}
    guess = learnt([*ranks, replace(run, result=faster)], name="NVIDIA A100").guess(run.spec, size(run))
    assert guess is not None
    assert guess.seconds == 1.0


def test_company_and_overhead_are_taken_into_account(ranks: list[RunFolder]) -> None:
    run = ranks[0]
    assert run.spec is not None
    assert run.result is not None
    timing = {"seconds": 100.0, "overhead": 7.0, "on_device": 10}
    guess = learnt([replace(run, result=run.result | {"timing": timing})]).guess(run.spec, size(run))
    assert guess is not None
    assert (guess.seconds, guess.overhead) == (pytest.approx(11.7), 7.0)


@pytest.mark.parametrize("timing", [None, {}, {"seconds": None}, {"seconds": "9"}, {"seconds": -1.0}])
def test_a_result_without_a_time_teaches_nothing(ranks: list[RunFolder], timing: object) -> None:
    run = ranks[0]
    assert run.result is not None
    assert learnt([replace(run, result=run.result | {"timing": timing})]).times == []
