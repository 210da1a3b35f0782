"""One self-contained page: claims, a section for each experiment, the design explorer, and the folders that cannot be
read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from html import escape
from pathlib import Path
from shlex import quote

from manyheads import __version__
from manyheads.experiments.registry import EXPERIMENTS
from manyheads.spec.errors import UserError
from manyheads.spec.experiment import Experiment
from manyheads.spec.files import replace, unwritten
from manyheads.spec.shell import word

from .claims_table import claims_table, claims_without_runs, evidence, evidence_table, tally
from .explorer import markup, rules
from .glossary import ARMS, COMPARISONS
from .read_runs import Asked, ReportedRuns, read_runs
from .section_html import link, section_html
from .section_verdicts import check_asked
from .svg import resource
from .tables import html

OPEN = 25  # with more comparisons the reader has to unfold them
RULE = """<details><summary>How a verdict is made</summary><p>An experiment states in advance what it expects of two arms:
better, more, less, different, equal, or no loss, with a margin. The effect is the difference between their means over
the seeds that both have (over all seeds if they share fewer than two), with a 95 % interval by Student's t (by
Welch's if they share fewer than two). Where the experiment declares it, the scatter is that of all its arms.
<b>Holds</b>: the whole interval is on the expected side, which is shaded. <b>Does not hold</b>: none of the interval
is. <b>Within noise</b>: the interval is on both sides; this is not evidence that nothing was lost. <b>Not
comparable</b>: the arms differ in task, data, batch, budget or precision although their experiment does not say so,
some of their runs gave no value, or time is compared and they shared a device. <b>Not testable in this setting</b>:
an arm does no better than a constant guess, or the control that has to lose did not, so that a loss would not have
been seen. <b>Not testable</b>: fewer than three seeds, or nothing to compare. A claim is decided by its primary
comparisons, all of them together, at the scale named and about that scale alone: laptop and small are reduced sizes.
That one of several fails, and the other comparisons of a section, are corrected for their number by Holm's rule;
their intervals are drawn uncorrected. A trend is a rank correlation over designs, tested by permutation. A smoke run
shows that everything works and claims nothing, whatever its numbers. The diamond is what the paper printed, from its
own setting.</p></details>
""".replace("\n", " ")

TERMS_LINE = (
    '<p class="dim">An arm is one model in a comparison; a basis is what is held equal between arms; inner is heads x '
    "head_dim; kappa is the condition number of the concatenated heads, whose matrix has tokens rows and inner columns. "
    '<a href="#words">All words and columns</a> are explained at the end.</p>'
)


def write(
    root: Path,
    out: Path,
    *,
    experiments: Mapping[str, Experiment] = EXPERIMENTS,
    command: str = "",
    assets: Path | None = None,
    asked: Asked | None = None,
) -> ReportedRuns:
    """Write the page about all runs below `root` to `out`, and return these runs. With `assets`, a folder, every figure
    and every table is also written there as a file. `asked` is compared instead of what experiments expect."""
    runs = read_runs(root, experiments, asked)
    check_asked(runs.sections)
    if not os.path.exists(root) or not (runs.sections or runs.problems):
        raise UserError(
            f"{root} holds no run folder; give the folder that `manyheads demo` or `manyheads train` wrote to"
        )
    option = f" --assets {word(assets)}" if assets else ""
    again = f"manyheads report {word(root)} --out {word(out)}{option}{asked_options(asked)}"
    text = page(runs, out.parent, command or again, experiments)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritten(out, error) from None
    replace(out, text.encode(errors="backslashreplace"))  # the name of a folder need not be UTF-8
    if assets is not None:
        from .page_files import save

        save(runs, assets, experiments)
    return runs


def asked_options(asked: Asked | None) -> str:
    """What is asked, as options of `manyheads report`."""
    if asked is None:
        return ""
    options = [("against", asked.against), ("metric", asked.metric)]
    if asked.expect != "open":
        options.append((asked.expect.replace("_", "-"), f"{asked.margin:g}"))
    return "".join(f" --{name} {quote(value)}" for name, value in options if value)


def page(runs: ReportedRuns, beside: Path, command: str, experiments: Mapping[str, Experiment] = EXPERIMENTS) -> str:
    """The page as text; links to run folders are relative to the folder `beside` which it is put."""
    states = [run.state for section in runs.sections for run in section.runs]
    bad = f", {len(runs.problems)} that cannot be read" if runs.problems else ""
    style = resource("page.css") + resource("figure.css")
    scripts = rules() + resource("page.js") + resource("explorer.js")
    body = "".join(section_html(section, number, beside) for number, section in enumerate(runs.sections))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,'
        f'initial-scale=1"><title>manyheads: {escape(_title(runs))}</title><style>{style}</style></head><body>'
        '<a class="skip" href="#main">Skip to the results</a>'
        f'<header><h1>{escape(_title(runs))}</h1><p class="dim">{len(states)} runs, {states.count("done")} finished{bad}.'
        f"</p>{_contents(runs)}"
        f'</header><main id="main">{_claims(runs, experiments)}{body}{_absent(runs, experiments)}{markup()}'
        f"{_repeated(runs)}{_problems(runs, beside)}{_words()}</main>"
        f"<footer><h3>This page</h3><pre>{escape(command)}</pre>"
        f"<p>Made by manyheads {__version__} from runs alone.</p></footer>"
        f"<script>{scripts}</script></body></html>\n"
    )


def _title(runs: ReportedRuns) -> str:
    titles = {section.experiment.title for section in runs.sections if section.experiment}
    return titles.pop() if len(titles) == 1 else "More heads, fewer layers"


def _contents(runs: ReportedRuns) -> str:
    """Links to every part; an experiment is named once, with a link for each of its scales."""
    items = ['<li><a href="#claims">claims</a></li>']
    titles: dict[str, list[tuple[int, str]]] = {}
    for number, section in enumerate(runs.sections):
        titles.setdefault(section.title, []).append((number, section.scale))
    for title, ((first, largest), *rest) in titles.items():
        more = "".join(
            f' <a href="#s{number}" aria-label="{escape(f"{title} {scale}")}">{escape(scale)}</a>'
            for number, scale in rest
        )
        items.append(
            f'<li><a href="#s{first}">{escape(title)} <span class="dim">{escape(largest)}</span></a>{more}</li>'
        )
    items.append('<li><a href="#explorer">design explorer</a></li>')
    items += [f'<li><a href="#bad">{runs.unreadable} that cannot be read</a></li>'] if runs.problems else []
    links = "".join(items)
    return f'<nav aria-label="Contents"><ul class="toc">{links}</ul></nav>'


def _claims(runs: ReportedRuns, experiments: Mapping[str, Experiment]) -> str:
    rows = evidence(runs.sections)
    undecided = claims_without_runs(rows, experiments)
    table = "<p>No run here is about a claim of the papers.</p>"
    if rows:
        opened = " open" * (len(rows) <= OPEN)
        table = (
            f"{html(claims_table(rows))}{RULE}<details{opened}><summary>Every comparison behind them: effect, "
            f"interval, seeds, basis and why ({len(rows)})</summary>{html(evidence_table(rows))}</details>"
        )
    if undecided.rows:
        count = len(undecided.rows)
        table += f"<details><summary>{count} claims without runs here</summary>{html(undecided)}</details>"
    return (
        f'<section aria-labelledby="claims"><h2 id="claims">Claims</h2><p>{escape(tally(rows))}</p>{TERMS_LINE}{table}'
        "</section>"
    )


def _absent(runs: ReportedRuns, experiments: Mapping[str, Experiment]) -> str:
    """Experiments that have no run here, and how to run them."""
    here = {section.name for section in runs.sections}
    items = "".join(
        f"<li><strong>{escape(name)}</strong>: {escape(one.question)}<pre>"
        f"{escape(one.command(next(iter(one.settings))))}</pre></li>"
        for name, one in experiments.items()
        if name not in here
    )
    return f"<details><summary>Experiments without runs here</summary><ul>{items}</ul></details>" if items else ""


def _repeated(runs: ReportedRuns) -> str:
    """The runs that lie in several places, which count once."""
    repeated = runs.repeated
    if not repeated:
        return ""
    items = "".join(
        f"<li>{escape(str(run.path))}: also in {escape(', '.join(map(str, run.also)))}</li>" for run in repeated
    )
    return (
        f"<details><summary>Runs that lie in several places ({len(repeated)}); each counts once</summary><ul>{items}"
        "</ul></details>"
    )


def _problems(runs: ReportedRuns, beside: Path) -> str:
    if not runs.problems:
        return ""
    items = "".join(
        f'<li><a href="{escape(link(item.path, beside))}">{escape(str(item.path.name))}</a> '
        f"({escape(item.state)}): {escape(item.problem or '')}</li>"
        for item in runs.problems
    )
    return (
        f'<section aria-labelledby="bad"><h2 id="bad">{runs.unreadable.capitalize()} that cannot be read</h2>'
        f'<div class="verdict bad"><ul>{items}</ul></div></section>'
    )


def _words() -> str:
    words = ARMS | COMPARISONS | {"seeds": ARMS["seeds"]}
    items = "".join(f"<dt>{escape(word)}</dt><dd>{escape(text)}</dd>" for word, text in words.items())
    return f'<details id="words"><summary>What the words and columns mean</summary><dl class="words">{items}</dl></details>'
