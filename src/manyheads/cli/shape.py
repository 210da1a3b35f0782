"""`manyheads shape`: what a model costs, and what a redesign of it would."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import typer

from manyheads.arch.controls import controls, depths, head_dims, heads, inners, mlp_dims, per_stage
from manyheads.arch.count import Cost, cost, params
from manyheads.arch.redesign import policy_of, redesign
from manyheads.interop.resolve import resolve
from manyheads.spec import serialise as record
from manyheads.spec.arch import Arch, attentions, editable
from manyheads.spec.parts import Stage, Window

from .numbers import in_layers, millions, operations, size, whole_numbers

NUMBERS = "A whole number; for staged families one per stage, as 1,1,5,1."
Numbers = Annotated[str | None, typer.Option(help=NUMBERS)]


def shape(
    model: Annotated[str, typer.Argument(help="A zoo name, paper:ROW, a saved arch.json, hf:FOLDER or a config.json.")],
    depth: Annotated[str | None, typer.Option("--depth", "--layers", "--num-layers", help=NUMBERS)] = None,
    heads: Annotated[str | None, typer.Option("--heads", "--num-heads", help=NUMBERS)] = None,
    head_dim: Numbers = None,
    mlp_dim: Numbers = None,
    policy: Annotated[str, typer.Option(help="fixed: keep head_dim. split: keep inner = heads x head_dim.")] = "fixed",
    kv_heads: Annotated[int | None, typer.Option(help="Heads of keys and values, shared between query heads.")] = None,
    tokens: Annotated[int | None, typer.Option(help="Context length of a language model.")] = None,
    arms: Annotated[
        bool,
        typer.Option(
            "--controls",
            help="Also list the controls: models that change the heads or the depth alone, or match lean's parameters.",
        ),
    ] = False,
    save: Annotated[Path | None, typer.Option(help="Write the record (of the redesign, if any) to this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what a model costs and, beside it, what a redesign of it would cost. Neither is built."""
    original = resolve(model)
    if tokens is not None:
        original = redesign(original, tokens=tokens)
    edits = {"depth": depth, "heads": heads, "head_dim": head_dim, "mlp_dim": mlp_dim}
    lean = None
    if kv_heads is not None or any(value is not None for value in edits.values()):
        settings: dict[str, Any] = {name: whole_numbers(v, name.replace("_", "-")) for name, v in edits.items()}
        lean = redesign(original, policy=cast(Literal["fixed", "split"], policy), kv_heads=kv_heads, **settings)
    if policy != "fixed" and heads is None:
        raise typer.BadParameter("a policy needs heads to change: add --heads")
    if arms and lean is None:
        raise typer.BadParameter("controls belong to a redesign: add --depth or --heads")
    if save is not None:
        record.save(lean or original, save)
    report = {"model": model, "original": describe(original)}
    if lean is not None:
        report["redesign"] = describe(lean)
        report["policy"] = policy_of(original, lean)
        if arms:
            report["controls"] = {
                name: {
                    "params": params(c.arch).total,
                    "non_embedding": in_layers(c.arch),
                    "matches": c.matches,
                    "residual": c.residual,
                    "same_as": c.same_as,
                    "arch": record.to_dict(c.arch),
                }
                for name, c in controls(original, lean).items()
            }
    if as_json:
        print(json.dumps(report))
    else:
        _print(model, report)


def describe(arch: Arch) -> dict[str, Any]:
    """Dimensions and costs of a record as plain values."""
    counted: Cost = cost(arch)
    tokens = [arch.stages[i].tokens for i in editable(arch)]
    rows = [mixed_tokens(arch.stages[i]) for i in editable(arch)]
    dims = {
        "depth": depths(arch),
        "heads": heads(arch),
        "head_dim": head_dims(arch),
        "inner": inners(arch),
        "width": [arch.stages[i].width for i in editable(arch)],
        "mlp_dim": mlp_dims(arch),
        "tokens": tokens,
    }
    groups = asdict(counted.params) | {"total": counted.params.total, "non_embedding": counted.params.non_embedding}
    costs = {name: getattr(counted, name) for name in Cost.__dataclass_fields__ if name != "params"}
    ratios = [round(inner / count, 4) for inner, count in zip(dims["inner"], rows, strict=True)]
    return dims | {"inner_per_token": ratios, "params": groups} | costs


def mixed_tokens(stage: Stage) -> int:
    """Rows of the matrix of concatenated heads: all tokens of a stage, or those of one window."""
    mix = attentions(stage)[0].mix
    return mix.size**2 if isinstance(mix, Window) else stage.tokens


def _print(model: str, report: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    name = Path(model).name if "/" in model and not model.startswith("paper:") else model
    old, new = report["original"], report.get("redesign")
    table = Table(box=None, header_style="bold", pad_edge=False, title_justify="left")
    table.add_column("", no_wrap=True)
    for title in (escape(name[:40]), "redesign", "ratio")[: 3 if new else 1]:
        table.add_column(title, justify="right", no_wrap=True)

    def row(title: str, pick: Any, show: Any, ratio: bool = True, style: str = "") -> None:
        cells = [show(pick(old))]
        if new:
            share = f"{pick(new) / pick(old):.3f}" if ratio and pick(old) else ""
            cells += [show(pick(new)), share]
        table.add_row(title, *cells, style=style)

    for name in ("depth", "heads", "head_dim", "inner", "mlp_dim", "width", "tokens"):
        row(name, lambda side, name=name: side[name], per_stage, ratio=False)
    row("inner / tokens", lambda side: [f"{r:.2f}" for r in side["inner_per_token"]], per_stage, ratio=False)
    table.add_section()
    row("parameters", lambda side: side["params"]["total"], millions, style="bold")
    for name in ("non_embedding", "attention", "mlp"):
        row(f"  {name.replace('_', '-')}", lambda side, name=name: side["params"][name], millions)
    row("forward FLOPs", lambda side: side["forward_flops"], operations)
    row("activations / example, fp32", lambda side: side["activation_bytes_unfused_fp32"], size)
    row("  autocast, fused attention", lambda side: side["activation_bytes_fused_amp"], size)
    row("weights, gradients, Adam", lambda side: side["state_bytes"], size)
    if old["kv_bytes_per_token"]:
        row("KV cache / token (bf16)", lambda side: side["kv_bytes_per_token"], size)
    row("head-layers", lambda side: side["head_layers"], str)
    console = Console()
    console.print(table)
    if new:
        console.print(f"\npolicy: [bold]{report['policy']}[/]  {POLICIES[report['policy']]}", highlight=False)
    if "controls" in report:
        arms = Table(box=None, header_style="bold", pad_edge=False)
        language = any(arm["non_embedding"] is not None for arm in report["controls"].values())
        for title in ("control", "parameters", *(["non-embedding"] if language else []), "matches", "residual"):
            arms.add_column(title, justify="left" if title in ("control", "matches") else "right")
        for name, arm in report["controls"].items():
            match = f"{arm['matches']}; the same model as {arm['same_as']}" if arm["same_as"] else arm["matches"]
            layers = [millions(arm["non_embedding"])] if language else []
            arms.add_row(name, millions(arm["params"]), *layers, match, f"{arm['residual']:+.2%}")
        console.print()
        console.print(arms)


POLICIES = {
    "fixed": "head_dim is kept; inner = heads x head_dim grows and shrinks with the heads",
    "split": "inner = heads x head_dim is kept; head_dim, and with it the rank per head, falls as heads rise",
    "head_dim": "heads are unchanged, head_dim changed",
    "kv_heads": "heads are unchanged, key and value heads changed",
    "same": "heads are unchanged",
    "other": "heads and head_dim both changed",
    "mixed": "stages follow different policies",
}
