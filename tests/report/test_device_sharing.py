"""Where time is compared, the page says how many runs were on the device; results of earlier versions load."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from manyheads.experiments.demo import DEMO
from manyheads.report.read_runs import Section, read_runs
from manyheads.report.section_summary import conclusion, terms
from manyheads.runs import Run
from manyheads.spec.experiment import Comparison, Experiment, folder, specs
from manyheads.spec.recipe import Basis

from .made import metrics, result


def section(root: Path, experiment: Experiment, counts: dict[str, int | None]) -> Section:
    """Finished runs of the two arms of `counts`, which says how many runs were on each one's device; None is a result
    of an earlier version."""
    for spec in specs(experiment, "smoke"):
        arm = spec.label["arm"]
        if arm not in counts:
            continue
        values = result(0.5, 12.0)
        values["timing"] = {"seconds": 12.0, "rate": 640.0, "unit": "images/s"}
        if counts[arm] is not None:
            values["timing"] |= {"on_device": counts[arm]}
        run = Run.create(folder(root, spec), spec)
        with run.locked():
            for record in metrics(0.5):
                run.metrics.append(record)
            run.finish(values)
    (one,) = read_runs(root, {experiment.name: experiment}).sections
    return one


def on_seconds() -> Experiment:
    """The demonstration with a budget of seconds."""
    setting = DEMO.setting("smoke")
    recipes = {name: replace(recipe, basis=Basis("seconds", 9.0)) for name, recipe in setting.recipes.items()}
    return replace(DEMO, settings={"smoke": replace(setting, recipes=recipes)}, trends=())


def test_company_of_runs_on_equal_seconds_is_told(tmp_path: Path) -> None:
    made = section(tmp_path, on_seconds(), {"original": 1, "lean": 16})
    assert "runs on a device at a time: 1 or 16" in terms(made)
    told = " ".join(conclusion(made))
    assert "runs whose time counts shared their device with others, up to 16 at a time" in told


def test_company_where_a_rate_is_compared_is_told_of_its_arms_alone(tmp_path: Path) -> None:
    rated = replace(DEMO, comparisons=(Comparison("lean", "original", "less", metric="rate"),), trends=())
    made = section(tmp_path, rated, {"original": 1, "lean": 1, "split": 4})
    assert "runs on a device at a time: 1 or 4" in terms(made)
    assert "shared their device" not in " ".join(conclusion(made))


def test_results_of_earlier_versions_load_and_their_company_is_unknown(tmp_path: Path) -> None:
    made = section(tmp_path, on_seconds(), {"original": None, "lean": 1})
    assert "runs on a device at a time: 1 or a number that was not recorded" in terms(made)
    assert "nobody knows how many others were on their device" in " ".join(conclusion(made))


def test_where_time_is_not_compared_and_nothing_is_known_nothing_is_told(tmp_path: Path) -> None:
    plain = replace(DEMO, comparisons=(), trends=())
    assert "on a device" not in terms(section(tmp_path, plain, {"original": None, "lean": 1}))
