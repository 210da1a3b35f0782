"""Train models side by side, judge them, and write the page: what `manyheads compare` and `manyheads.compare` do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from manyheads.spec.errors import UserError
from manyheads.spec.experiment import OWN, Experiment

from .compared_models import Expected, Rate, arm_names, at_rates, base_rate, comparison, usual_name, with_rates
from .stated_run import Stated

if TYPE_CHECKING:
    from manyheads.report.read_runs import ReportedRuns, Section
    from manyheads.spec.arch import Arch
    from manyheads.spec.comparison import Expect
    from manyheads.sweep.jobs import Job, Outcome
    from manyheads.sweep.plan import Selection

Execute = Callable[[Sequence["Job"]], "list[Outcome]"]
TESTS: tuple[Expect, ...] = ("no_loss", "better", "equal")


@dataclass(frozen=True)
class Compared:
    """A comparison that was made: its record, what became of its runs, everything that the page reports, and where the
    page is. `verdicts` are its sentences."""

    experiment: Experiment
    outcomes: list[Outcome]
    reported: ReportedRuns
    page: Path

    @property
    def section(self) -> Section:
        """The arms with their runs."""
        return next(one for one in self.reported.sections if one.name == self.experiment.name)

    @property
    def verdicts(self) -> list[str]:
        """The primary comparisons, each in a sentence and a word with its reason."""
        from manyheads.report.section_verdicts import verdicts

        primary = [one for one in verdicts(self.section) if one.pair.primary]
        return [f"{one.verdict.found} {_capital(one.verdict.word)}. {one.verdict.reason}".strip() for one in primary]


def _capital(word: str) -> str:
    return word[:1].upper() + word[1:]


def stated_test(tests: Mapping[str, float | None]) -> tuple[Expect, float]:
    """The one test that was stated, and its margin; `open` where none was."""
    stated = {name: margin for name, margin in tests.items() if margin is not None}
    if len(stated) > 1:
        given = ", ".join(f"--{name.replace('_', '-')}" for name in stated)
        raise UserError(f"{given} are different tests; write one of them")
    name, margin = next(iter(stated.items()), ("open", 0.0))
    return cast("Expect", name), margin


def by_name(models: Sequence[Any]) -> dict[str, str | Arch]:
    """The models by the names of their arms: names of models, records, or mappings of arm to either. A name that two
    models have is refused."""
    names = iter(arm_names([model for model in models if isinstance(model, str)]))
    named: dict[str, str | Arch] = {}
    for number, model in enumerate(models, 1):
        added: dict[str, str | Arch]
        if isinstance(model, Mapping):
            added = dict(model)
        elif isinstance(model, str):
            added = {next(names): model}
        else:
            added = {"original" if number == 1 else f"model_{number}": model}
        for name in added.keys() & named.keys():
            raise UserError(
                f"two of the models are called {name}; give one of them another name, as in {{'{name}_2': model}}"
            )
        named |= added
    return named


@dataclass(frozen=True)
class PlannedComparison:
    """A comparison before it is made. `rates` are the factors of the learning rate that each arm tries, if any."""

    experiment: Experiment
    root: Path
    rates: tuple[float, ...] = ()
    data_root: Path | None = None

    @property
    def choosing(self) -> Experiment | None:
        """The experiment that chooses the rates."""
        return at_rates(self.experiment, self.rates) if self.rates else None

    def selection(self, experiment: Experiment) -> Selection:
        """Its runs."""
        from manyheads.sweep.plan import plan

        return plan(experiment, OWN, self.root)

    def make(self, execute: Execute, command: str) -> Compared:
        """Make it: choose rates, train, judge, write the page. What an earlier call finished is not done again."""
        outcomes: list[Outcome] = []
        experiment = self.experiment
        choosing = self.choosing
        if choosing is not None:
            outcomes += self._run(choosing, execute)
            tried = [factor * base_rate(experiment).lr for factor in sorted(self.rates)]
            experiment = with_rates(experiment, self._chosen(choosing), tried)
        outcomes += self._run(experiment, execute)
        from manyheads.report.page import write

        page = self.root / "report.html"
        reported = write(self.root, page, command=command)
        return Compared(experiment, outcomes, reported, page)

    def _run(self, experiment: Experiment, execute: Execute) -> list[Outcome]:
        from manyheads import tasks
        from manyheads.runs.folder import RESULT

        selection = self.selection(experiment)
        task = experiment.setting(OWN).task
        jobs = selection.jobs()
        if task is not None and any(not (job.path / RESULT).is_file() for job in jobs):
            tasks.check_data(task, root=self.data_root)
        selection.write_experiments()
        selection.share()
        outcomes = execute(jobs)
        selection.share()
        return outcomes

    def _chosen(self, choosing: Experiment) -> dict[str, Rate]:
        """The rate of each arm that did best on the validation samples."""
        from manyheads.experiments.statistics import choose
        from manyheads.report.read_runs import read_runs
        from manyheads.report.section_verdicts import VALID

        sections = read_runs(self.root, {}).sections
        section = next(one for one in sections if one.name == choosing.name)
        headline, way = section.headline
        scores = {arm.name: arm.values(VALID + headline) for arm in section.arms}
        setting = choosing.setting(OWN)
        lrs = {arm.name: arm.own_recipe(base_rate(choosing)).lr for arm in setting.arms}
        rates = {}
        for best in setting.bests:
            choice = choose(best, scores, {}, cast(Any, way))
            if not choice.arm:
                raise UserError(
                    f"no run of {best.name} at any learning rate is finished, so none can be chosen; the folders in "
                    f"{self.root / f'{choosing.name}-{OWN}'} say why"
                )
            ends = (best.arms[0], best.arms[-1])
            rates[best.name] = Rate(lrs[choice.arm], choice.arm in ends)
        return rates


def planned_comparison(
    models: Sequence[Any],
    stated: Stated,
    expected: Expected,
    *,
    seeds: Sequence[int],
    controls: bool = False,
    rates: Sequence[float] = (),
    name: str = "",
    out: Path | None = None,
    command: str = "",
) -> PlannedComparison:
    """The comparison of `models`, to be made below the folder `out` (runs/NAME if it is None)."""
    named = by_name(models)
    experiment = comparison(
        named, stated, expected, seeds=seeds, name=name, controls=controls, validation=bool(rates), command=command
    )
    place = out or Path("runs") / (name or usual_name(named))
    plan = PlannedComparison(experiment, place, tuple(rates), stated.root)
    _ = plan.choosing  # refuses wrong rates before anything runs
    return plan


def compare(
    *models: Any,
    data: str | None = None,
    seeds: Sequence[int] = (0, 1, 2),
    no_loss: float | None = None,
    better: float | None = None,
    equal: float | None = None,
    against: str = "",
    controls: bool = False,
    rates: Sequence[float] = (),
    name: str = "",
    out: Path | str | None = None,
    workers: int = 0,
    threads: int = 1,
    device: str | None = None,
    quiet: bool = True,
    **options: Any,
) -> Compared:
    """Train `models` side by side, judge them and write a page; called again, it finishes what is left.

    A model is a name, a record, or a mapping from names of arms to either. `options` are further fields of
    `interop.stated_run.Stated`: steps, basis, epochs, batch, lr, recipe, task, settings, tokenizer, root. With `workers`
    processes runs train side by side; 0 trains in this process. `no_loss`, `better` and `equal` are as in `manyheads
    compare`."""
    from manyheads.sweep.jobs import QuietView
    from manyheads.sweep.local import run

    stated = Stated(data=data, **options)
    expect, margin = stated_test({"no_loss": no_loss, "better": better, "equal": equal})
    plan = planned_comparison(
        models,
        stated,
        Expected(expect, margin, against),
        seeds=seeds,
        controls=controls,
        rates=rates,
        name=name,
        out=None if out is None else Path(out),
        command="manyheads.compare(...)",
    )

    def execute(jobs: Sequence[Job]) -> list[Outcome]:
        look = QuietView() if quiet else None
        return run(jobs, workers=workers, threads=threads, device=device, root=stated.root, look=look)

    return plan.make(execute, "manyheads.compare(...)")
