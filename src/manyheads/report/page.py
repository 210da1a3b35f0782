"""One self-contained page: claims first, then a section per experiment, the explorer, and what cannot be read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from manyheads import __version__
from manyheads.experiments.registry import EXPERIMENTS
from manyheads.spec.errors import UserError
from manyheads.spec.experiment import Experiment
from manyheads.spec.files import replace, unwritten

from .explorer import models
from .explorer_page import SCRIPT as EXPLORE
from .explorer_page import markup
from .explorer_rules import pure
from .gather import Gathered, gather
from .ledger import MEANING as TERMS
from .ledger import claims_table, evidence_table, ledger, tally, unspoken
from .script import SCRIPT
from .section import link, section_html
from .style import STYLE
from .summary import MEANING
from .tables import html
from .words import escape

OPEN = 25  # comparisons that are shown without being asked for
RULE = """<details><summary>How a verdict is made</summary><p>An experiment says beforehand what it expects of a pair of
arms: more, less, different, or no loss beyond a margin. The effect is the difference of the means, over the seeds that both
arms share where there are two or more, with a 95 % interval by Student's t (Welch's where they share none).
<b>Holds</b>: the whole interval is on the expected side, which is shaded. <b>Does not hold</b>: none of it is.
<b>Within noise</b>: it is on both sides; finding no difference is not the same as no loss. <b>Not testable</b>: fewer
than three seeds, or nothing to compare. Every verdict names its scale and is about that scale alone: laptop and small are
reduced sizes, for two CPU cores and for one GPU, and of a claim with several comparisons no common verdict is made. A smoke
run shows that everything works and claims nothing, whatever its numbers. Each interval stands alone: nothing is corrected
for how many there are, and of twenty true zeros one is expected to lie outside of its interval. The diamond is what the
paper printed, from its own setting.</p></details>
""".replace("\n", " ")


def write(
    root: Path,
    out: Path,
    *,
    experiments: Mapping[str, Experiment] = EXPERIMENTS,
    command: str = "",
    assets: Path | None = None,
) -> Gathered:
    """Write the page about all runs below `root` to `out`, and give back what it is about. With `assets`, a folder,
    every figure and every table is written there as a file, too."""
    found = gather(root, experiments)
    if not found.sections and not found.problems:
        raise UserError(
            f"{root} holds no run folder; give the folder that `manyheads demo` or `manyheads train` wrote to"
        )
    given = f" --assets {assets}" if assets else ""
    text = page(found, out.parent, command or f"manyheads report {root} --out {out}{given}", experiments)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritten(out, error) from None
    replace(out, text.encode())
    if assets is not None:
        from .assets import save

        save(found, assets, experiments)
    return found


def page(found: Gathered, beside: Path, command: str, experiments: Mapping[str, Experiment] = EXPERIMENTS) -> str:
    """The page as text; links to run folders are relative to the folder `beside` which it is put."""
    total = sum(len(section.runs) for section in found.sections)
    done = sum(run.state == "done" for section in found.sections for run in section.runs)
    bad = f", {len(found.problems)} that cannot be read" if found.problems else ""
    body = "".join(section_html(section, number, beside) for number, section in enumerate(found.sections))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,'
        f'initial-scale=1"><title>manyheads: {escape(_title(found))}</title><style>{STYLE}</style></head><body>'
        '<a class="skip" href="#main">Skip to the results</a>'
        f'<header><h1>{escape(_title(found))}</h1><p class="dim">{total} runs, {done} finished{bad}.</p>{_contents(found)}'
        f'</header><main id="main">{_claims(found, experiments)}{body}{_absent(found, experiments)}{markup()}'
        f"{_problems(found, beside)}{_words()}</main>"
        f"<footer><h3>This page</h3><pre>{escape(command)}</pre>"
        f"<p>Made by manyheads {__version__} from run folders alone.</p></footer>"
        f"<script>{SCRIPT}</script><script>{pure(models())}{EXPLORE}</script></body></html>\n"
    )


def _title(found: Gathered) -> str:
    known = {section.experiment.title for section in found.sections if section.experiment}
    return known.pop() if len(known) == 1 else "More heads, fewer layers"


def _contents(found: Gathered) -> str:
    """Links to every part; an experiment is named once, with a link for each of its scales."""
    items = ['<li><a href="#claims">claims</a></li>']
    titles: dict[str, list[tuple[int, str]]] = {}
    for number, section in enumerate(found.sections):
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
    items += ['<li><a href="#bad">folders that cannot be read</a></li>'] if found.problems else []
    links = "".join(items)
    return f'<nav aria-label="Contents"><ul class="toc">{links}</ul></nav>'


def _claims(found: Gathered, experiments: Mapping[str, Experiment]) -> str:
    entries = ledger(found.sections)
    rest = unspoken(entries, experiments)
    table = "<p>No run here speaks of a claim of the papers.</p>"
    if entries:
        opened = " open" * (len(entries) <= OPEN)
        table = (
            f"{html(claims_table(entries))}{RULE}<details{opened}><summary>Every comparison behind them: effect, "
            f"interval, seeds, basis and why ({len(entries)})</summary>{html(evidence_table(entries))}</details>"
        )
    if rest.rows:
        table += f"<details><summary>{len(rest.rows)} claims without runs here</summary>{html(rest)}</details>"
    return (
        f'<section aria-labelledby="claims"><h2 id="claims">Claims</h2><p>{escape(tally(entries))}</p>{table}</section>'
    )


def _absent(found: Gathered, experiments: Mapping[str, Experiment]) -> str:
    """Experiments that have no run here, and how to run them."""
    here = {section.name for section in found.sections}
    items = "".join(
        f"<li><strong>{escape(name)}</strong>: {escape(one.question)}<pre>"
        f"{escape(one.command(next(iter(one.settings))))}</pre></li>"
        for name, one in experiments.items()
        if name not in here
    )
    return f"<details><summary>Experiments without runs here</summary><ul>{items}</ul></details>" if items else ""


def _problems(found: Gathered, beside: Path) -> str:
    if not found.problems:
        return ""
    items = "".join(
        f'<li><a href="{escape(link(item.path, beside))}">{escape(str(item.path.name))}</a> '
        f"({escape(item.state)}): {escape(item.problem or '')}</li>"
        for item in found.problems
    )
    return (
        '<section aria-labelledby="bad"><h2 id="bad">Folders that cannot be read</h2><div class="verdict bad"><ul>'
        f"{items}</ul></div></section>"
    )


def _words() -> str:
    items = "".join(f"<dt>{escape(word)}</dt><dd>{escape(text)}</dd>" for word, text in (MEANING | TERMS).items())
    return f'<details><summary>What the columns mean</summary><dl class="words">{items}</dl></details>'
