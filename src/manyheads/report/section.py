"""One experiment on the page: its question and verdict, the table of arms, figures, comparisons, runs and machines."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from .chart import Figure
from .figures import figures
from .gather import Section, Trained
from .judged import verdicts
from .ledger import COMPARED, compared
from .ledger import MEANING as TERMS
from .summary import MEANING, conclusion, table, terms
from .svg import COLOURS, draw, mark
from .tables import Cell, Table, html, slug
from .words import duration, escape, score

LISTED = 1000  # runs of a section listed one by one; more would make the page heavy and nobody reads them
TOLD = 10  # sentences that are shown at once
KEYS = 4 * COLOURS  # marks that can be told apart
URGENT = ("failed", "stopped", "running", "new")


def section_html(section: Section, number: int, beside: Path) -> str:
    """The section; links to run folders are relative to the folder `beside` which the page is put."""
    known = section.experiment
    claims = ": claims nothing" if section.scale == "smoke" else ""
    tag = f' <span class="tag">{escape(section.scale)}{claims}</span>' if section.scale else ""
    title = ": ".join(filter(None, (known.shows, known.title))) if known else ""
    name = f'<p class="name">{escape(title)}</p>' if known else ""
    question = f"{name}<p>{escape(known.question)}</p>" if known else ""
    arms, drawn = arms_table(section), figures(section)
    shared = _legend([arm.name for arm in section.arms], [arm.note for arm in section.arms]) if drawn else ""
    shown = "".join(figure_html(figure, f"f{number}-{i}", section) for i, figure in enumerate(drawn))
    pairs = comparisons_table(section)
    return (
        f'<section aria-labelledby="s{number}"><h2 id="s{number}">{escape(section.title)}{tag}</h2>{question}'
        f'<p class="dim">{escape(terms(section))}</p>{_told(conclusion(section))}{html(arms)}{shared}'
        f'<div class="figures">{shown}</div>{"<h3>Comparisons</h3>" + html(pairs) if pairs.rows else ""}'
        f"{_runs(section, beside)}{_command(section)}{_machines(section.runs)}</section>"
    )


def arms_table(section: Section) -> Table:
    """The table of arms."""
    rows = table(section, full=True)
    return Table(
        f"{section.full} arms", list(rows[0]) if rows else [], [list(row.values()) for row in rows], meaning=MEANING
    )


def comparisons_table(section: Section) -> Table:
    """Every comparison of the experiment, whether a claim hangs on it or not."""
    rows = [[Cell(item.pair.claim), *compared(item, section), Cell(item.verdict.reason)] for item in verdicts(section)]
    return Table(f"{section.full} comparisons", ("claim", *COMPARED, "why"), rows, words=True, meaning=TERMS)


def runs_table(section: Section, beside: Path) -> Table:
    """Every run with its folder; those that did not finish first, and why."""
    metric, _ = section.headline
    runs = [(arm, run) for arm in section.arms for run in arm.runs]
    runs.sort(key=lambda pair: URGENT.index(pair[1].state) if pair[1].state in URGENT else len(URGENT))
    rows = []
    for arm, run in runs[:LISTED]:
        value, spent, status = run.measured.final(metric), run.measured.seconds, run.found.status or {}
        why = str(status.get("message") or "") if run.state in ("failed", "stopped") else ""
        trained = run.found.spec.label.get("trained_in") if run.found.spec else None
        why = f"trained in {trained}" if trained and not why else why
        rows.append(
            [
                Cell(arm.name),
                Cell(str(run.seed), run.seed),
                Cell(run.state),
                Cell("") if value is None else Cell(score(value, metric), value),
                Cell("") if spent is None else Cell(duration(spent), spent),
                Cell(run.path.name, href=link(run.path, beside)),
                Cell(why),
            ]
        )
    heads = ("arm", "seed", "state", metric or "score", "time", "folder", "message")
    return Table(f"{section.full} runs", heads, rows)


def figure_name(figure: Figure, section: Section) -> str:
    """A figure's name as a file."""
    return slug(f"{section.full} {figure.chart.title}")


def figure_html(figure: Figure, key: str, section: Section) -> str:
    """A figure with its caption, its own legend where it has one, and the buttons that save it."""
    own = _legend(figure.chart.keys) if len(figure.chart.keys) > 1 or any(figure.chart.keys) else ""
    tools = "".join(
        f'<button type="button" class="get" data-get="{kind}">{kind.upper()}</button>' for kind in ("svg", "png")
    )
    drawn = draw(figure.chart, key).replace("<svg ", '<svg class="plot" ', 1)
    return (
        f'<figure data-name="{figure_name(figure, section)}"><strong>{escape(figure.chart.title)}</strong>{drawn}{own}'
        f'<figcaption>{escape(figure.caption)}</figcaption><div class="tools">{tools}</div></figure>'
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


def _told(sentences: Sequence[str]) -> str:
    if not sentences:
        return ""
    shown, rest = sentences[:TOLD], sentences[TOLD:]
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


def _machines(runs: Sequence[Trained]) -> str:
    machines: dict[str, int] = {}
    for run in runs:
        if run.measured.machine:
            text = ", ".join(f"{name} {_plain(value)}" for name, value in run.measured.machine.items())
            machines[text] = machines.get(text, 0) + 1
    items = "".join(f"<li>{escape(text)} ({count} runs)</li>" for text, count in machines.items())
    return f"<details open><summary>Machine and versions</summary><ul>{items}</ul></details>" if items else ""


def _plain(value: Any) -> str:
    return ", ".join(f"{name} {item}" for name, item in value.items()) if isinstance(value, dict) else str(value)


def link(path: Path, beside: Path) -> str:
    """The way from the page to a folder, as a relative address."""
    return quote(os.path.relpath(path.resolve(), beside.resolve()).replace(os.sep, "/")) + "/"
