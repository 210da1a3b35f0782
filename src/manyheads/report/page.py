"""One self-contained page: the verdict first, then table, figures, runs, commands and machines; no network, no torch."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from manyheads import __version__
from manyheads.arch.errors import UserError
from manyheads.experiments.experiment import Experiment
from manyheads.experiments.registry import EXPERIMENTS

from .figures import figures
from .gather import ArmRuns, Gathered, Section, Trained, gather
from .style import SCRIPT, STYLE
from .summary import MEANING, Cell, conclusion, table, terms, verdicts
from .svg import COLOURS, draw, mark
from .words import duration, escape, score

LISTED = 400  # runs of a section listed one by one; thousands would make the page heavy and nobody reads them


def write(root: Path, out: Path, *, experiments: Mapping[str, Experiment] = EXPERIMENTS, command: str = "") -> Gathered:
    """Write the page about all runs below `root` to `out`, and give back what it is about."""
    found = gather(root, experiments)
    if not found.sections and not found.problems:
        raise UserError(f"{root} holds no run folder; give the folder that `manyheads demo` or `manyheads train` wrote to")
    text = page(found, out.parent, command or f"manyheads report {root} --out {out}")
    partial = out.with_name(out.name + ".partial")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(text, encoding="utf-8")
        partial.replace(out)
    except OSError as error:
        raise UserError(f"{out} cannot be written: {error.strerror or error}") from None
    return found


def page(found: Gathered, beside: Path, command: str) -> str:
    """The page as text; links to run folders are relative to the folder `beside` which it is put."""
    total = sum(len(section.runs) for section in found.sections)
    done = sum(run.state == "done" for section in found.sections for run in section.runs)
    bad = f", {len(found.problems)} that cannot be read" if found.problems else ""
    body = [_section(section, number, beside) for number, section in enumerate(found.sections)]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,'
        f'initial-scale=1"><title>manyheads: {escape(_title(found))}</title><style>{STYLE}</style></head><body>'
        '<a class="skip" href="#main">Skip to the results</a>'
        f'<header><h1>{escape(_title(found))}</h1><p class="dim">{total} runs, {done} finished{bad}.</p></header>'
        f'<main id="main">{"".join(body)}{_problems(found, beside)}</main>'
        f"<footer><h3>This page</h3><pre>{escape(command)}</pre>"
        f"<p>Made by manyheads {__version__} from run folders alone.</p></footer>"
        f"<script>{SCRIPT}</script></body></html>\n"
    )


def _title(found: Gathered) -> str:
    known = {section.experiment.title for section in found.sections if section.experiment}
    return known.pop() if len(known) == 1 else "More heads, fewer layers"


def _section(section: Section, number: int, beside: Path) -> str:
    known = section.experiment
    title = " ".join(filter(None, [section.name or "single runs", section.basis and f"on equal {section.basis}"]))
    tag = f' <span class="tag">{escape(section.scale)}</span>' if section.scale else ""
    question = f"<p>{escape(known.question)}</p>" if known else ""
    question += f'<p class="dim">{escape(terms(section))}</p>'
    told = conclusion(section)
    verdict = f'<div class="verdict"><ul>{"".join(map(_sentence, told))}</ul></div>' if told else ""
    drawn = "".join(
        f"<figure><strong>{escape(chart.title)}</strong>{draw(chart, f'f{number}-{i}')}<figcaption>{escape(caption)}"
        "</figcaption></figure>"
        for i, (chart, caption) in enumerate(figures(section))
    )
    return (
        f'<section aria-labelledby="s{number}"><h2 id="s{number}">{escape(title)}{tag}</h2>{question}{verdict}'
        f"{_table(table(section), f'Arms of {title}')}{_legend(section.arms)}"
        f'<div class="figures">{drawn}</div>{_claims(section)}{_runs(section, beside)}{_machines(section.runs)}</section>'
    )


def _sentence(text: str) -> str:
    head, colon, rest = text.partition(": ")
    return f"<li><strong>{escape(head)}{colon}</strong>{escape(rest)}</li>" if colon else f"<li>{escape(text)}</li>"


def _table(rows: Sequence[Mapping[str, Cell]], name: str) -> str:
    if not rows:
        return ""
    heads = [f'<th scope="col" title="{escape(MEANING.get(head.split(",")[0], head))}"><button>{escape(head)}</button></th>'
             for head in rows[0]]  # fmt: skip
    body = [[f'<td data-key="{escape(str(cell.key))}">{escape(cell.text)}</td>' for cell in row.values()] for row in rows]
    return _grid(name, heads, body)


def _plain_grid(name: str, heads: Sequence[str], rows: Sequence[Sequence[str]], kind: str = "") -> str:
    """A table that does not sort; its cells are HTML."""
    cells = [[f"<td>{cell}</td>" for cell in row] for row in rows]
    return _grid(name, [f'<th scope="col">{escape(head)}</th>' for head in heads], cells, kind)


def _grid(name: str, heads: Sequence[str], rows: Sequence[Sequence[str]], kind: str = "") -> str:
    """A table in a frame of its own, which scrolls sideways on a narrow screen, by keyboard too."""
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return (f'<div class="wide {kind}" role="region" tabindex="0" aria-label="{escape(name)}"><table><thead><tr>'
            f"{''.join(heads)}</tr></thead><tbody>{body}</tbody></table></div>")  # fmt: skip


def _legend(arms: Sequence[ArmRuns]) -> str:
    items = (f'<li><svg class="key" viewBox="-8 -8 16 16" aria-hidden="true">{mark(0, 0, i, 6)}</svg> {escape(arm.name)}'
             f'{f""" <span class="dim">{escape(arm.note)}</span>""" if arm.note else ""}</li>'
             for i, arm in enumerate(arms[: 3 * COLOURS]))  # fmt: skip
    return f'<ul class="legend">{"".join(items)}</ul>'


def _claims(section: Section) -> str:
    judged = [item for item in verdicts(section) if item.claim]
    if not judged:
        return ""
    rows = [[escape(f"{item.pair.claim}: {item.claim}"), escape(f"{item.pair.arm} against {item.pair.against}"),
             escape(item.verdict.word), escape(item.verdict.reason)] for item in judged]  # fmt: skip
    return "<h3>Claims</h3>" + _plain_grid("Claims", ("claim", "compared", "verdict", "why"), rows, "words")


def _runs(section: Section, beside: Path) -> str:
    metric, _ = section.headline
    runs = [(arm, run) for arm in section.arms for run in arm.runs]
    rows = []
    for arm, run in runs[:LISTED]:
        value, spent = run.measured.final(metric), run.measured.seconds
        cells = [arm.name, str(run.seed), run.state, "" if value is None else score(value, metric),
                 "" if spent is None else duration(spent)]  # fmt: skip
        why = str((run.found.status or {}).get("message") or "") if run.state in ("failed", "stopped") else ""
        link = f'<a href="{escape(_link(run.path, beside))}">{escape(run.path.name)}</a>'
        rows.append([*map(escape, cells), f"{link} {escape(why)}"])
    more = f"<p>{len(runs) - LISTED} more are not listed.</p>" if len(runs) > LISTED else ""
    drawn = _plain_grid("Runs", ("arm", "seed", "state", metric or "score", "time", "folder"), rows)
    command = section.experiment.command(section.scale) if section.experiment else "manyheads train --resume FOLDER"
    return (
        f"<details><summary>Runs ({len(runs)})</summary>{drawn}{more}</details>"
        f"<details open><summary>Run it yourself</summary><pre>{escape(command)}</pre></details>"
    )


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


def _problems(found: Gathered, beside: Path) -> str:
    if not found.problems:
        return ""
    items = "".join(f'<li><a href="{escape(_link(item.path, beside))}">{escape(str(item.path.name))}</a> '
                    f"({escape(item.state)}): {escape(item.problem or '')}</li>" for item in found.problems)  # fmt: skip
    return ('<section aria-labelledby="bad"><h2 id="bad">Folders that cannot be read</h2><div class="verdict bad"><ul>'
            f"{items}</ul></div></section>")  # fmt: skip


def _link(path: Path, beside: Path) -> str:
    """The way from the page to a folder, as a relative address."""
    from urllib.parse import quote

    return quote(os.path.relpath(path.resolve(), beside.resolve()).replace(os.sep, "/")) + "/"
