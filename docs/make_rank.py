"""Writes the tables and the figure of docs/rank.md from finished runs: `python docs/make_rank.py [FOLDER OF RUNS]`.

With a folder, the runs of the rank experiments below it become part of the evidence of their scale first (`RECORDS`),
each arm in place of what was recorded of it, unless it has fewer seeds; without, what is recorded is drawn again. The
runs of `rank_n` at scale small are read from their pack (`PACK`).
Tables stand between two marks, `<!-- name -->` and `<!-- /name -->`; the rest of the page is left alone."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

from manyheads.arch.controls import depths, head_dims, heads
from manyheads.arch.count import params
from manyheads.experiments.rank_depth import RANK_RATE
from manyheads.experiments.rank_heads import RANK_FIG1
from manyheads.experiments.registry import EXPERIMENTS, RANK
from manyheads.experiments.statistics import mean, spread
from manyheads.models.store import load
from manyheads.report.read_runs import read_runs
from manyheads.spec.serialise import to_dict

HERE = Path(__file__).parent
PAGE, EVIDENCE = HERE / "rank.md", HERE.parent / "evidence"
RECORDS = {"laptop": "rank_laptop_cpu.json", "small": "rank_small_h200.json"}
PACK = EVIDENCE / "rank_n_small_h200.jsonl.xz"
# fmt: off
NOTES = {  # one seed each, found before this code was written
    "L1_d2_full": 0.063, "L1_d2_half": 0.571, "L1_d2_quarter": 0.677, "L1_d2_r1": 0.738,
    "L1_d2.5_full": 0.056, "L1_d2.5_half": 0.408, "L1_d2.5_quarter": 0.571, "L1_d2.5_r1": 0.692,
}
# fmt: on
RED, BLUE, GREEN, INK = "#d1642d", "#1f6feb", "#1a7f37", "#57606a"
PLACES = {"split4": (5, 6), "split2": (6, -1), "thin4": (-4, -10), "fixed2": (7, -5)}  # of names too close to others
Arms = dict[str, dict[str, Any]]


def record(root: Path, scale: str) -> dict[str, Any]:
    """Every arm of every rank experiment at `scale`, seed by seed."""
    found: dict[str, Any] = {}
    for section in read_runs(root, {name: EXPERIMENTS[name] for name in RANK}).sections:
        if section.scale != scale or section.experiment is None:
            continue
        arms: Arms = {}
        for arm in section.arms:
            spec = arm.runs[0].folder.spec
            assert spec is not None
            arms[arm.name] = {
                "depth": depths(arm.arch)[0],
                "heads": heads(arm.arch)[0],
                "head_dim": head_dims(arm.arch)[0],
                "params": params(arm.arch).total,
                "batch": spec.recipe.batch,
                "steps": spec.recipe.basis.amount,
                "lr": spec.recipe.lr,
                "warmup": spec.recipe.schedule.warmup,
                "task": to_dict(spec.task),
                "trivial": arm.done[0].measured.trivial,
                "seeds": [run.seed for run in arm.done],
                **{
                    name: list(arm.values(name).values()) for name in ("loss", "seen", "skill", "accuracy", "log_kappa")
                },
                "scales": [last_scale(run.path / "model") for run in arm.done],
                "seconds": [round(run.measured.seconds or 0.0, 1) for run in arm.done],
                "machine": arm.done[0].measured.machine,
            }
        found[section.name] = arms
    return found


def last_scale(model: Path) -> float | None:
    """s of the last x s / |x|, where the model was kept."""
    if not (model / "arch.json").exists():
        return None
    scales = [float(part) for name, part in load(model).state_dict().items() if name.endswith("scale")]
    return scales[-1] if scales else None


def merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """What was recorded, with the arms of `new` in place of their own."""
    for name, arms in new.items():
        for arm, one in arms.items():
            before = old["experiments"].setdefault(name, {}).get(arm)
            if before is not None and len(before["seeds"]) > len(one["seeds"]):
                sys.exit(
                    f"{name} {arm}: {len(before['seeds'])} seeds on record and {len(one['seeds'])} here; run the rest"
                )
            old["experiments"][name][arm] = one
    return old


def table(*rows: Sequence[str]) -> str:
    """A Markdown table; the first row is its head."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def told(values: Sequence[float]) -> str:
    """Mean and spread."""
    return f"{mean(values):.3f} ± {spread(values):.3f}"


def kappa(logs: Sequence[float]) -> str:
    """Geometric mean."""
    value = math.exp(mean(logs))
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def fig1(arms: Arms) -> str:
    """Rank x multiplier beside the notes."""
    rows = [["arm", "heads x rank", "loss", "best", "earlier, one seed", "skill", "accuracy", "kappa"]]
    for name, one in arms.items():
        rows.append(
            [
                name,
                f"{one['heads']} x {one['head_dim']}",
                told(one["loss"]),
                f"{min(one['loss']):.3f}",
                f"{NOTES[name]:.3f}",
                f"{mean(one['skill']):.2f}",
                f"{mean(one['accuracy']):.3f}",
                kappa(one["log_kappa"]),
            ]
        )
    return table(*rows)


def beside_paper(arms: Arms, short: dict[str, Any]) -> str:
    """The same at the paper's size, beside itself after a `short` warm-up and what was printed; skill and kappa are the
    best seed's."""
    rows = [
        [
            "arm",
            "heads x rank",
            "parameters",
            "loss of each seed",
            "best",
            "its skill",
            "its kappa",
            f"warm-up of {100 * short['warmup']:.0f} %",
            "paper",
        ]
    ]
    for name, one in arms.items():
        best = min(range(len(one["loss"])), key=one["loss"].__getitem__)
        rows.append(
            [
                name,
                f"{one['heads']} x {one['head_dim']}",
                f"{one['params']:,}",
                ", ".join(f"{loss:.3f}" for loss in one["loss"]),
                f"{one['loss'][best]:.3f}",
                f"{one['skill'][best]:.2f}",
                kappa([one["log_kappa"][best]]),
                ", ".join(f"{loss:.3f}" for loss in short["loss"][name]),
                f"{RANK_FIG1.printed[name]:.3g}",
            ]
        )
    return table(*rows)


def by_rate(arms: Arms) -> str:
    """Loss by learning rate and warm-up, and in how many seeds the last scale ends at 0."""
    rows = [["arm", "learning rate", "warm-up", "loss", "best", "ended at zeros"]]
    for name, one in ((arm.name, arms[arm.name]) for arm in RANK_RATE.setting("laptop").arms):
        lost = sum(abs(scale) < 0.01 for scale in one["scales"])
        rows.append(
            [
                name,
                f"{one['lr']:g}",
                f"{100 * one['warmup']:.0f} %",
                told(one["loss"]),
                f"{min(one['loss']):.3f}",
                f"{lost} of {len(one['loss'])}",
            ]
        )
    return table(*rows)


def scored(*names: str) -> Callable[[Arms], str]:
    """One row for each arm, with these scores."""

    def make(arms: Arms) -> str:
        rows = [["arm", "layers", "heads x rank", "parameters", *names, "kappa"]]
        for name, one in arms.items():
            scores = [told(one[score]) for score in names]
            rows.append(
                [
                    name,
                    str(one["depth"]),
                    f"{one['heads']} x {one['head_dim']}",
                    f"{one['params']:,}",
                    *scores,
                    kappa(one["log_kappa"]),
                ]
            )
        return table(*rows)

    return make


# fmt: off
TABLES: dict[str, Callable[[Arms], str]] = {
    "rank_fig1": fig1, "rank_axes": scored("loss", "accuracy"), "rank_replay": scored("loss", "seen"),
    "rank_n": scored("loss", "skill"), "rank_dim": scored("loss", "skill"), "rank_regression": scored("loss"),
    "rank_positions": scored("loss", "skill"), "rank_rate": by_rate,
}
# fmt: on


def draw(arms: Arms) -> None:
    """Error and kappa along the three axes, and against each other."""
    plt.rcParams.update(
        {"font.family": "sans-serif", "font.size": 9, "svg.fonttype": "none", "svg.hashsalt": "manyheads"}
    )
    figure, panes = plt.subplots(1, 3, figsize=(10.2, 3.6), layout="constrained")
    axes = {
        "split": ("split: thinner heads, same parameters", RED),
        "fixed": ("fixed: more heads of the same rank", BLUE),
        "wide": ("wider heads, as many", GREEN),
    }
    for key, pane in (("loss", panes[0]), ("log_kappa", panes[1])):
        for name, (label, colour) in axes.items():
            chosen = [arms[arm][key] for arm in ("original", f"{name}2", f"{name}4")]
            points = [[math.exp(value) if key == "log_kappa" else value for value in values] for values in chosen]
            centre = [math.exp(mean(values)) if key == "log_kappa" else mean(values) for values in chosen]
            pane.plot((1, 2, 4), centre, color=colour, marker="o", ms=4, label=label)
            for x, values in zip((1, 2, 4), points, strict=True):
                pane.plot([x] * len(values), values, "_", color=colour, ms=9)
        pane.set(xscale="log", xticks=(1, 2, 4), xticklabels=("original", "x 2", "x 4"), ylabel="held-out error")
        pane.minorticks_off()
    panes[0].axhline(arms["original"]["trivial"]["linear"], color=INK, lw=0.8, ls=":")
    panes[0].annotate(
        "best linear guess",
        (1, arms["original"]["trivial"]["linear"]),
        color=INK,
        xytext=(0, 3),
        textcoords="offset points",
    )
    panes[0].set(ylim=(0, 0.82), title="error")
    panes[0].legend(frameon=False, fontsize=7, loc="lower left")
    panes[1].set(yscale="log", ylabel="kappa of the trained heads", title="kappa")
    colours = {**{f"{name}{n}": colour for name, (_, colour) in axes.items() for n in (2, 4)}}
    for name, one in arms.items():
        x, y = math.exp(mean(one["log_kappa"])), mean(one["loss"])
        panes[2].scatter(x, y, s=24, color=colours.get(name, INK), zorder=3)
        panes[2].annotate(
            f"{name} {one['heads']}x{one['head_dim']}",
            (x, y),
            fontsize=7,
            color=INK,
            xytext=PLACES.get(name, (5, 2)),
            textcoords="offset points",
        )
    panes[2].set(xscale="log", xlabel="kappa", ylabel="held-out error", title="error against kappa", ylim=(0, 0.82))
    panes[2].set_xlim(right=panes[2].get_xlim()[1] * 12)
    for pane in panes:
        pane.spines[["top", "right"]].set_visible(False)
        pane.grid(color="#eaeef2", zorder=0)
    for kind in ("svg", "png"):
        figure.savefig(HERE / "img" / f"rank_axes.{kind}", dpi=130, metadata={"Date": None} if kind == "svg" else None)


def write(page: str, found: dict[str, dict[str, Any]]) -> str:
    """`page` with every table made anew."""
    tables = [(name, make(found["laptop"]["experiments"][name])) for name, make in TABLES.items()]
    small = found["small"]
    tables += [("rank_n small", scored("loss", "skill", "accuracy")(record(PACK, "small")["rank_n"]))]
    tables += [("rank_fig1 small", beside_paper(small["experiments"]["rank_fig1"], small["short_warmup"]))]
    for name, made in tables:
        page, count = re.subn(
            rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)",
            lambda m, made=made: f"{m[1]}\n{made}\n\n{m[2]}",
            page,
            flags=re.S,
        )
        assert count == 1, name
    return page


if __name__ == "__main__":
    if len(sys.argv) > 1:
        if not Path(sys.argv[1]).is_dir():
            sys.exit(f"{sys.argv[1]} is no folder of runs\n\n{__doc__}")
        for scale, name in RECORDS.items():
            if made := record(Path(sys.argv[1]), scale):
                whole = merged(json.loads((EVIDENCE / name).read_text()), made)
                (EVIDENCE / name).write_text(json.dumps(whole, indent=1) + "\n")
    measured = {scale: json.loads((EVIDENCE / name).read_text()) for scale, name in RECORDS.items()}
    PAGE.write_text(write(PAGE.read_text(), measured))
    draw(measured["laptop"]["experiments"]["rank_axes"])
