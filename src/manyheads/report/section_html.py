"""One section of the page: question, verdicts, the table of arms, figures, comparisons, runs and machines."""

from __future__ import annotations

import os
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from .chart import Figure
from .claims_table import COMPARED, compared
from .figures import figures
from .glossary import ARMS, COMPARISONS
from .number_text import duration, score
from .read_runs import ReportedRun, Section
from .section_summary import conclusion, table, terms
from .section_verdicts import verdicts
from .svg import COLOURS, draw, mark
from .tables import Cell, Table, html, slug

LISTED = 1000  # runs of a section listed one by one; more would make the page heavy and nobody reads them
SENTENCES = 10  # of the verdict that are shown at once
KEYS = 4 * COLOURS  # marks that differ in colour or shape
UNFINISHED = ("failed", "stopped", "running", "new")


def section_html(section: Section, number: int, beside: Path) -> str:
    """The section; links to run folders are relative to the folder `beside` which the page is put."""
    experiment = section.experiment
    claims = ": claims nothing" if section.scale == "smoke" else ""
    tag = f' <span class="tag">{escape(section.scale)}{claims}</span>' if section.scale else ""
    question = ""
    if experiment:
        title = ": ".join(filter(None, (experiment.shows, experiment.title)))
        question = f'<p class="name">{escape(title)}</p><p>{escape(experiment.question)}</p>'
    drawn = figures(section)
    legend = _legend([arm.name for arm in section.arms], [arm.note for arm in section.arms]) if drawn else ""
    plots = "".join(_figure(figure, f"f{number}-{i}", section) for i, figure in enumerate(drawn))
    pairs = comparisons_table(section)
    return (
        f'<section aria-labelledby="s{number}"><h2 id="s{number}">{escape(section.title)}{tag}</h2>{question}'
        f'<p class="dim">{escape(terms(section))}</p>{_verdict(conclusion(section))}{html(arms_table(section))}{legend}'
        f'<div class="figures">{plots}</div>{"<h3>Comparisons</h3>" + html(pairs) if pairs.rows else ""}'
        f"{_runs(section, beside)}{_command(section)}{_machines(section.runs)}</section>"
    )


def arms_table(section: Section) -> Table:
    """The table of arms."""
    rows = table(section, full=True)
    heads = list(rows[0]) if rows else []
    return Table(f"{section.full} arms", heads, [list(row.values()) for row in rows], meaning=ARMS)


def comparisons_table(section: Section) -> Table:
    """Every comparison of the experiment, whether it is about a claim or not."""
    rows = [[Cell(one.pair.claim), *compared(one, section), Cell(one.verdict.reason)] for one in verdicts(section)]
    return Table(f"{section.full} comparisons", ("claim", *COMPARED, "why"), rows, words=True, meaning=COMPARISONS)


def runs_table(section: Section, beside: Path) -> Table:
    """Every run with its folder; those that did not finish come first, with the reason."""
    metric, _ = section.headline
    runs = [(arm, run) for arm in section.arms for run in arm.runs]
    runs.sort(key=lambda pair: UNFINISHED.index(pair[1].state) if pair[1].state in UNFINISHED else len(UNFINISHED))
    rows = []
    for arm, run in runs[:LISTED]:
        value, spent, status = run.measured.final(metric), run.measured.seconds, run.folder.status or {}
        why = str(status.get("message") or "") if run.state in ("failed", "stopped") else ""
        trained = run.folder.spec.label.get("trained_in") if run.folder.spec else None
        why = f"trained in {trained}" if trained and not why else why
        rows.append(
            [
                Cell(arm.name),
                Cell(str(run.seed), run.seed),
                Cell(run.state),
                Cell("") if value is None else Cell(score(value, metric), value),
                Cell("") if spent is None else Cell(duration(spent), spent),
                Cell(run.path.name, href=link(run.folder.place, beside)),
                Cell(why),
            ]
        )
    heads = ("arm", "seed", "state", metric or "score", "time", "folder", "message")
    return Table(f"{section.full} runs", heads, rows)


def figure_name(figure: Figure, section: Section) -> str:
    """The name of a figure's files."""
    return slug(f"{section.full} {figure.chart.title}")


def _figure(figure: Figure, key: str, section: Section) -> str:
    """A figure with its caption, its own legend where it has one, and the buttons that save it."""
    own = _legend(figure.chart.keys) if len(figure.chart.keys) > 1 or any(figure.chart.keys) else ""
    tools = "".join(
        f'<button type="button" class="get" data-get="{kind}">{kind.upper()}</button>' for kind in ("svg", "png")
    )
    return (
        f'<figure data-name="{figure_name(figure, section)}"><strong>{escape(figure.chart.title)}</strong>'
        f"{draw(figure.chart, key)}{own}<figcaption>{escape(figure.caption)}</figcaption>"
        f'<div class="tools">{tools}</div></figure>'
    )


def _legend(names: Sequence[str], notes: Sequence[str] = ()) -> str:
    items = []
    for i, name in enumerate(names[:KEYS]):
        note = f' title="{escape(notes[i])}"' if notes and notes[i] else ""
        items.append(
            f'<li><button type="button" aria-pressed="false" data-k="{i}"{note}><svg class="key" '
            f'viewBox="-8 -8 16 16" aria-hidden="true">{mark(0, 0, i, 6)}</svg> {escape(name)}</button></li>'
        )
    more = f'<li class="dim">and {len(names) - KEYS} more</li>' if len(names) > KEYS else ""
    return f'<ul class="legend">{"".join(items)}{more}</ul>'


def _verdict(sentences: Sequence[str]) -> str:
    if not sentences:
        return ""
    shown, rest = sentences[:SENTENCES], sentences[SENTENCES:]
    more = (
        f"<details><summary>{len(rest)} more</summary><ul>{''.join(map(_sentence, rest))}</ul></details>"
        if rest
        else ""
    )
    return f'<div class="verdict"><ul>{"".join(map(_sentence, shown))}</ul>{more}</div>'


def _sentence(text: str) -> str:
    head, colon, rest = text.partition(": ")
    return f"<li><strong>{escape(head)}{colon}</strong>{escape(rest)}</li>" if colon else f"<li>{escape(text)}</li>"


def _runs(section: Section, beside: Path) -> str:
    total = len(section.runs)
    more = f"<p>{total - LISTED} more are not listed.</p>" if total > LISTED else ""
    return f"<details><summary>Runs ({total})</summary>{html(runs_table(section, beside))}{more}</details>"


def _command(section: Section) -> str:
    command = section.experiment.command(section.scale) if section.experiment else "manyheads train --resume FOLDER"
    return f"<details open><summary>Run it yourself</summary><pre>{escape(command)}</pre></details>"


def _machines(runs: Sequence[ReportedRun]) -> str:
    machines: dict[str, int] = {}
    for run in runs:
        if run.measured.machine:
            known = {name: value for name, value in run.measured.machine.items() if value is not None}
            text = ", ".join(f"{name} {_plain(value)}" for name, value in known.items())
            machines[text] = machines.get(text, 0) + 1
    items = "".join(f"<li>{escape(text)} ({count} runs)</li>" for text, count in machines.items())
    return f"<details open><summary>Machine and versions</summary><ul>{items}</ul></details>" if items else ""


def _plain(value: Any) -> str:
    return ", ".join(f"{name} {item}" for name, item in value.items()) if isinstance(value, dict) else str(value)


def link(path: Path, beside: Path) -> str:
    """The relative address of a folder or of a pack, seen from the page."""
    address = os.path.relpath(os.path.realpath(path), os.path.realpath(beside)).replace(os.sep, "/")
    return quote(os.fsencode(address)) + "/" * (not path.is_file())  # a name on the disk need not be UTF-8
