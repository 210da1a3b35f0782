"""A plan as a person reads it: tables and sentences on the terminal, the front as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from manyheads.arch.controls import per_stage

from .numbers import millions, size

if TYPE_CHECKING:
    from manyheads.planner import Design, Plan

NARROW = 118  # columns below which some are left out


def show(plan: Plan, report: dict[str, Any], chosen: Design, *, brief: bool = False) -> None:
    """Print the table, the chosen design's reasons, every warning once, the cost of training and what to run next.

    `brief` leaves out the reasons and the arms."""
    from rich.console import Console
    from rich.markup import escape
    from rich.padding import Padding

    from manyheads.planner.presentation import SCRATCH, amount, shape

    console = Console(highlight=False)

    def under(text: str) -> None:
        console.print(Padding(text, (0, 0, 0, 3), expand=False))

    original, number = plan.original, report["chosen"]
    console.print(
        f"[bold]{escape(str(report['model']))}[/]: {shape(original)}, {millions(original.costs['params'])} "
        f"parameters; {plan.use.describe(original.arch)}"
    )
    budget = ", ".join(f"{cap.name} <= {amount(cap.kind, cap.most)} ({cap.given})" for cap in plan.caps)
    console.print(
        f"budget: {budget}. {plan.considered:,} designs considered, {plan.fitting:,} fit, "
        f"{len(plan.front):,} are on the front ({plan.seconds:.2f} s)\n"
    )
    console.print(_table(plan, narrow=console.width < NARROW))
    if not brief:
        console.print(f"\n[bold]{number}[/]  {shape(chosen)}")
        for reason in chosen.reasons:
            under(reason.words)
    if sentences := _warnings(plan):
        console.print("\n[bold]warnings[/]")
        for text in sentences:
            under(text)
    if "measured" in report:
        console.print()
        console.print(_measured(report["measured"]))
        first = report["measured"][0]
        console.print(f"[dim]{first['machine']}; memory is {first['source']}, of a step at batch {first['batch']}[/]")
    cost, before = chosen.training, original.training
    console.print(
        f"\n{SCRATCH}\nTraining {number}: {cost.flops:.2e} FLOPs, about {cost.gpu_hours:,.1f} GPU-hours; the "
        f"original {before.flops:.2e}, {before.gpu_hours:,.1f}. Assumed: {cost.assumption}."
    )
    if not brief:
        console.print("\n[bold]to find out[/]: train these arms, three seeds or more each, on one basis")
        for arm in report["arms"]:
            under(_arm(arm))
    for line in _commands(report, brief):
        console.print(f"   {line}", markup=False, soft_wrap=True)
    if "command" in report and " --data " not in report["command"]:
        console.print("It trains on data that is embedded; --data folder:NAME or shards:NAME names your own.")


def _table(plan: Plan, *, narrow: bool) -> Any:
    from rich.table import Table

    titles = [
        "",
        "layers",
        "heads",
        "MLP",
        "policy",
        "parameters",
        "FLOPs",
        "memory",
        "KV",
        "latency",
        "kappa",
        "inner/tokens",
        "warnings",
    ]
    hidden = {"policy", "memory", "inner/tokens"} if narrow else set()
    hidden |= {"KV"} if not plan.original.costs["kv_cache"] else set()
    hidden |= {"latency"} if all(cap.kind != "latency" for cap in plan.caps) else set()
    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in titles:
        if title not in hidden:
            table.add_column(
                title,
                justify="left" if title in ("layers", "heads", "policy", "warnings") else "right",
                no_wrap=title != "warnings",
            )
    rows = [
        ("", plan.original),
        *((str(i + 1), one) for i, one in enumerate(plan.designs)),
        *(("also", one) for one in plan.also),
    ]
    for name, one in rows:
        first = one is plan.original
        cells = _cells(one, first, absolute=plan.latency != 1.0)
        table.add_row(
            name, *(cells[title] for title in titles[1:] if title not in hidden), style="dim" if first else ""
        )
    return table


def _cells(one: Design, original: bool, *, absolute: bool) -> dict[str, str]:
    dims, ratios = one.dims, {kind: f"{ratio:.2f}" for kind, ratio in one.ratios.items()}
    shared = "" if dims["kv_heads"] == dims["heads"] else f"/{per_stage(dims['kv_heads'])}"
    misses = "" if one.fits or original else " (does not fit)"
    return {
        "layers": per_stage(dims["depth"]),
        "heads": f"{per_stage(dims['heads'])}{shared} x {per_stage(dims['head_dim'])}",
        "MLP": per_stage(dims["mlp_dim"]) if any(dims["mlp_dim"]) else "",
        "policy": "" if original else one.policy,
        "parameters": f"{millions(one.costs['params'])} {ratios['params']}",
        "FLOPs": ratios["flops"],
        "memory": f"{size(one.costs['memory'])} {ratios['memory']}",
        "KV": ratios["kv_cache"],
        "latency": f"{one.costs['latency'] * 1e3:.3g} ms {ratios['latency']}" if absolute else ratios["latency"],
        "kappa": f"{one.kappa:.3g} {one.kappa_ratio:{'.2f' if one.kappa_ratio < 10 else '.3g'}}",
        "inner/tokens": _place(one),
        "warnings": " ".join(one.codes) + misses,
    }


def _place(design: Design) -> str:
    from manyheads.planner.attention_kappa import sites
    from manyheads.spec.arch import attentions, editable

    stages = [design.arch.stages[i] for i in editable(design.arch)]
    return per_stage([f"{attentions(stage)[0].inner / sites(stage)[0].rows:.2f}" for stage in stages])


def _warnings(plan: Plan) -> list[str]:
    """Each warning once, in the words of the first design that has it."""
    listed = [(str(i + 1), one) for i, one in enumerate(plan.designs)] + [("also", one) for one in plan.also]
    sentences = []
    for code in dict.fromkeys(code for _, one in listed for code in one.codes):
        carried = [name for name, one in listed if code in one.codes]
        warning = next(warning for _, one in listed for warning in one.warnings if warning.code == code)
        colour = "red" if warning.level == "serious" else "yellow"
        whose = f" (so of {carried[0]})" if len(carried) > 1 else ""
        sentences.append(f"[{colour}]{code}[/] ({', '.join(carried)}): {warning.words}{whose}")
    return sentences


def _measured(timed: list[dict[str, Any]]) -> Any:
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("measured", "latency, batch 1", "", "training, examples/s", "", "peak memory", ""):
        table.add_column(title, justify="left" if title == "measured" else "right", no_wrap=True)
    for i, one in enumerate(timed):
        table.add_row(
            "original" if i == 0 else str(i),
            f"{one['latency'] * 1e3:.1f} ms",
            f"{one['latency_ratio']:.2f}",
            f"{one['throughput']:.2f}",
            f"{one['throughput_ratio']:.2f}",
            size(one["memory"]),
            f"{one['memory_ratio']:.2f}",
        )
    return table


def _arm(arm: dict[str, Any]) -> str:
    if arm["fault"]:
        return f"{arm['name']:15} [dim]cannot be made: {arm['fault']}[/]"
    miss = f" ({arm['residual']:+.2%})" if abs(arm["residual"]) >= 5e-5 else ""
    matches = f"the same model as {arm['same_as']}" if arm["same_as"] else f"{arm['matches']}{miss}"
    return f"{arm['name']:15} {millions(arm['params']):>10}  {matches}"


def _commands(report: dict[str, Any], brief: bool) -> list[str]:
    """The commands to run next."""
    train = report.get("command", "" if brief else "--arms FOLDER writes them as records")
    return [line for line in (train, *report.get("emitted", {}).get("lines", ())) if line]


def draw(plan: Plan, name: str, file: Path) -> None:
    """Draw layers against predicted kappa: the front coloured by its warnings, the listed designs numbered."""
    from .figure import figure

    front = plan.front
    layers, kappa = front.depth.sum(axis=1), front.kappa_ratio
    calm = front.serious == 0
    wary = front.cautions > 0
    groups = {"no warning": calm & ~wary, "cautions": calm & wary, "serious warnings": ~calm}
    with figure(file) as axes:
        for (label, chosen), colour in zip(groups.items(), ("#1a7f37", "#d1642d", "#afb8c1"), strict=True):
            axes.scatter(
                layers[chosen], kappa[chosen], s=8, color=colour, label=f"{label} ({int(chosen.sum())})", zorder=2
            )
        for i, design in enumerate(plan.designs):
            at = (sum(design.dims["depth"]), design.kappa_ratio)
            axes.scatter(*at, s=90, facecolor="none", edgecolor="#1f6feb", zorder=3)
            axes.annotate(str(i + 1), at, xytext=(6, 5), textcoords="offset points", color="#1f6feb")
        axes.scatter(
            sum(plan.original.dims["depth"]), 1.0, marker="*", s=90, color="#1f2328", label="original", zorder=3
        )
        axes.axhline(1.0, color="#57606a", lw=0.8, ls=":")
        budget = ", ".join(f"{cap.name} {cap.given}" for cap in plan.caps)
        axes.set(xlabel="layers", ylabel="predicted kappa / original's", yscale="log", title=f"{name}: {budget}")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_minor_formatter(lambda value, _: f"{value:g}")
        axes.legend(frameon=False)
