"""`manyheads plan`: which redesigns fit a budget, what each costs, what theory predicts, what to run to find out."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError

from .numbers import DIGITS, whole_numbers

if TYPE_CHECKING:
    from manyheads.planner import Budget, Design, Limits, Plan

Amount = Annotated[
    str | None, typer.Option(help="At most this: a share of the original's (0.5x), or 40M, 17G, 12GB, 5ms.")
]
Model = Annotated[
    str, typer.Argument(help="A zoo name, paper:ROW, arch.json, timm:NAME, hf:FOLDER, config.json or run:FOLDER.")
]
SHORT = re.compile("N+xN+(?:xN+)?(?:/N+)?".replace("N+", "([0-9]{1,300})"))


def plan(
    model: Model,
    params: Amount = None,
    flops: Amount = None,
    memory: Amount = None,
    kv_cache: Amount = None,
    latency: Amount = None,
    policy: Annotated[
        str | None, typer.Option(help="fixed keeps head_dim, split keeps heads x head_dim. Default: both.")
    ] = None,
    head_dims: Annotated[str | None, typer.Option(help="The only head_dims allowed, e.g. 32,64.")] = None,
    heads: Annotated[str | None, typer.Option(help="Fewest and most heads, e.g. 12,32.")] = None,
    min_depth: Annotated[int, typer.Option(help="Fewest layers.")] = 1,
    mlp: Annotated[str, typer.Option(help="free: may be cut. held: keeps its width.")] = "free",
    kv_heads: Annotated[str, typer.Option(help="keep: as the original. any: grouped queries. Or a number.")] = "keep",
    multiples: Annotated[str, typer.Option(help="Heads, head_dim and MLP width are multiples of these.")] = "1,8,64",
    tokens: Annotated[int | None, typer.Option(help="Context length of a language model.")] = None,
    image: Annotated[int | None, typer.Option(help="Image size.")] = None,
    batch: Annotated[
        int, typer.Option("--batch", "--batch-size", help="Batch of a training step, for its memory.")
    ] = 32,
    precision: Annotated[str, typer.Option(help="Precision of training, for its memory: fp32, amp or bf16.")] = "amp",
    unfused: Annotated[bool, typer.Option("--unfused", help="Training keeps the attention maps in memory.")] = False,
    probe: Annotated[
        Path | None, typer.Option(help="Output of `manyheads probe --detail --json` for this model.")
    ] = None,
    also: Annotated[
        list[str] | None,
        typer.Option(help="Judge this design too: 7x16x64/1536 (layers, heads, head_dim, MLP), or a name. Repeatable."),
    ] = None,
    examples: Annotated[float | None, typer.Option(help="Examples that training from scratch would see.")] = None,
    top: Annotated[int, typer.Option(help="Number of designs in the list.")] = 8,
    choose: Annotated[int, typer.Option(help="Number of the design to explain, save and emit.")] = 1,
    measure: Annotated[
        int, typer.Option(help="Build and time this many designs of the list, beside the original.")
    ] = 0,
    device: Annotated[str | None, typer.Option(help="Where --measure runs.")] = None,
    save: Annotated[Path | None, typer.Option(help="Write the chosen design's record to this file.")] = None,
    arms: Annotated[
        Path | None,
        typer.Option(help="Write the models to compare (the arms: original, lean and controls) to this folder."),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="Dataset of the command that trains the arms, such as folder:NAME or shards:NAME. Default: embedded data."
        ),
    ] = None,
    emit: Annotated[
        str | None, typer.Option(help="Write the chosen design as code that runs: timm, hf or python.")
    ] = None,
    to: Annotated[Path, typer.Option(help="Folder for --emit.")] = Path("redesign"),
    plot: Annotated[Path | None, typer.Option(help="Draw the front to this file (.svg, .png, .pdf).")] = None,
    brief: Annotated[bool, typer.Option("--brief", help="Leave out reasons and arms.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Plan redesigns of a model, with more heads and fewer layers, that fit a budget."""
    from manyheads.interop.resolve import resolve
    from manyheads.planner import Budget
    from manyheads.planner import plan as make_plan
    from manyheads.planner.comparison import arms as arms_of
    from manyheads.planner.comparison import command as train_command
    from manyheads.planner.comparison import save as save_arms
    from manyheads.planner.presentation import as_record
    from manyheads.spec import serialise as record

    if choose < 1:
        raise UserError(f"--choose {choose}: write the number of a design in the list, from 1 up")
    if top < 1:
        raise UserError(f"--top {top}: write a whole number from 1 up")
    if measure < 0:
        raise UserError(f"--measure {measure}: write how many designs to time, or 0 for none")
    budget = Budget(params=params, flops=flops, memory=memory, kv_cache=kv_cache, latency=latency)
    limits = _limits(policy, head_dims, heads, min_depth, mlp, kv_heads, multiples)
    original = resolve(model)
    probed = None if probe is None else record.read_json(probe)
    result = make_plan(
        original,
        budget,
        limits,
        tokens=tokens,
        image=image,
        batch=batch,
        precision=cast(Any, precision),
        fused=not unfused,
        latency=_latency(budget, original, device),
        probe=probed,
        also=[_asked(text, original) for text in also or ()],
        top=max(top, choose),
        examples=examples,
    )
    if result.closest is not None:
        raise UserError(result.impossible())
    chosen = result.designs[choose - 1] if choose <= len(result.designs) else None
    if chosen is None:
        raise UserError(f"--choose {choose}: the list has {len(result.designs)} designs")
    report = as_record(result) | {"model": model, "chosen": choose}
    comparison = arms_of(result.original.arch, chosen.arch)
    report["arms"] = [
        {
            "name": arm.name,
            "params": arm.params,
            "matches": arm.matches,
            "residual": arm.residual,
            "same_as": arm.same_as,
            "fault": arm.fault,
        }
        for arm in comparison
    ]
    if save is not None:
        record.save(chosen.arch, save)
    if arms is not None:
        report["files"] = [str(path) for path in save_arms(comparison, arms)]
        report["command"] = train_command(comparison, arms, data)
    if emit is not None:
        from manyheads.interop.emit import emit as emitted

        report["emitted"] = emitted(chosen.arch, emit, to, model)
    if measure > 0:
        report["measured"] = _measure(result, measure, device)
    if plot is not None:
        from .plan_view import draw

        draw(result, model, plot)
    if as_json:
        print(json.dumps(report, allow_nan=False))
    else:
        from .plan_view import show

        show(result, report, chosen, brief=brief)


def _limits(
    policy: str | None, dims: str | None, heads: str | None, min_depth: int, mlp: str, kv_heads: str, multiples: str
) -> Limits:
    from manyheads.planner import Limits

    steps = _several(multiples, "multiples")
    if len(steps) != 3:
        raise UserError(f"--multiples {multiples}: write three numbers, of heads, head_dim and MLP width, e.g. 1,8,64")
    span = None if heads is None else _several(heads, "heads")
    if span is not None and len(span) != 2:
        raise UserError(f"--heads {heads}: write the fewest and the most, e.g. 12,32")
    shared: Any = int(kv_heads) if DIGITS.fullmatch(kv_heads) else kv_heads
    return Limits(
        policy=cast(Any, policy),
        head_dims=() if dims is None else _several(dims, "head-dims"),
        heads=cast(Any, span),
        min_depth=min_depth,
        mlp=cast(Literal["free", "held"], mlp),
        kv_heads=shared,
        heads_multiple=steps[0],
        head_dim_multiple=steps[1],
        mlp_multiple=steps[2],
    )


def _several(text: str, name: str) -> tuple[int, ...]:
    values = whole_numbers(text, name)
    return (values,) if isinstance(values, int) else tuple(values or ())


def _asked(text: str, original: Arch) -> Arch:
    """A design written as 7x16x64/1536 (layers, heads, head_dim, MLP) or as the name of a model."""
    from manyheads.arch.redesign import redesign
    from manyheads.interop.resolve import resolve

    match = SHORT.fullmatch(text)
    if match is None:
        return resolve(text)
    depth, heads, dim, mlp = (None if part is None else int(part) for part in match.groups())
    return redesign(original, depth=depth, heads=heads, head_dim=dim, mlp_dim=mlp)


def _latency(budget: Budget, original: Arch, device: str | None) -> float | None:
    """The original's batch-1 latency on this machine if an absolute budget needs it."""
    from manyheads.planner.constraints import parse

    if budget.latency is None or parse("latency", budget.latency)[1]:
        return None
    from manyheads.planner.machine_costs import measure

    return measure([original], device=device, train=False)[0].latency


def _measure(result: Plan, count: int, device: str | None) -> list[dict[str, Any]]:
    from dataclasses import asdict

    from rich.console import Console

    from manyheads.planner.machine_costs import measure

    designs: list[Design] = [result.original, *result.designs[:count]]
    with Console(stderr=True).status("measuring") as status:
        timed = measure(
            [design.arch for design in designs], device=device, tick=lambda what: status.update(f"measuring: {what}")
        )
    kinds = ("latency", "throughput", "memory")
    ratios = [{f"{kind}_ratio": getattr(one, kind) / getattr(timed[0], kind) for kind in kinds} for one in timed]
    return [asdict(one) | ratio for one, ratio in zip(timed, ratios, strict=True)]
