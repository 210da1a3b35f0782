"""What speaks for a design and what against it. Reasons are the same eight things about every design, in words and
numbers; warnings are the rules that hold, serious ones first. Nothing is scored."""

from __future__ import annotations

from math import exp

import numpy as np
from numpy.typing import NDArray

from manyheads.arch.count import params
from manyheads.arch.quantities import Params
from manyheads.arch.redesign import redesign
from manyheads.arch.thresholds import LOW_RANK
from manyheads.conditioning.theory import one_head
from manyheads.spec.arch import Arch, attentions, editable

from . import cost_rules, paper_rules
from .attention_kappa import log_kappa
from .design_facts import Facts, StageFacts
from .rules import Remark, Rule

RULES: tuple[Rule, ...] = (*paper_rules.RULES, *cost_rules.RULES)


def reasons(facts: Facts, arch: Arch) -> tuple[Remark, ...]:
    """The reasons of one design; `facts` are of it alone."""
    # the stage that changed the most speaks for a staged model
    stage = max(facts.stages, key=lambda one: (abs(float(one.heads[0] / one.heads0 - 1)), one.depth0))
    remarks = (_depth(facts), _heads(stage), _place(stage), _kappa(facts), _rank(stage), _shares(facts), _long(facts))
    return remarks if len(facts.stages) > 1 else (*remarks, _gain(facts, stage, arch))


def _depth(facts: Facts) -> Remark:
    left, all_ = int(facts.layers[0]), facts.layers0
    stages = "" if len(facts.stages) == 1 else f" ({', '.join(f'{int(s.depth[0])}/{s.depth0}' for s in facts.stages)})"
    return Remark(
        "depth",
        f"{left} of {all_} layers are left{stages}: {left / all_:.2f}",
        {"depth": left, "before": all_, "ratio": left / all_},
    )


def _heads(stage: StageFacts) -> Remark:
    heads, dim, kv = int(stage.heads[0]), int(stage.head_dim[0]), int(stage.kv_heads[0])
    shared = f" sharing {kv} of keys and values" if kv != heads else ""
    words = (
        f"{stage.label}{heads} heads of {dim}{shared} in place of {stage.heads0} of {stage.head_dim0}: inner "
        f"{heads * dim} in place of {stage.inner0}"
    )
    return Remark(
        "heads",
        words,
        {"heads": heads, "head_dim": dim, "kv_heads": kv, "inner": heads * dim, "inner_before": stage.inner0},
    )


def _place(stage: StageFacts) -> Remark:
    rows = stage.sites[0].rows
    now, before = float(stage.inner[0] / rows), stage.inner0 / rows
    if now > 1:
        where = f"past the peak at 1, where kappa falls as inner grows (kappa 2 would need inner {9 * rows})"
    else:
        where = "before the peak at 1, where kappa rises as inner grows" if now < 1 else "at the peak"
    return Remark(
        "place",
        f"{stage.label}inner / tokens is {now:.2f} ({before:.2f} before): {where}",
        {"inner_per_token": now, "before": before},
    )


def _kappa(facts: Facts) -> Remark:
    ratio, before = exp(float(facts.log_ratio[0])), exp(facts.log_kappa0)
    probed = [stage.measured for stage in facts.stages if stage.measured is not None]
    tokens = [one.tokens_log_kappa for one in probed if one.tokens_log_kappa is not None]
    source = "probed; the ratio is that of Gaussian heads" if probed else "Gaussian heads"
    limit = f"; the probed tokens have kappa {exp(sum(tokens) / len(tokens)):.3g}" if tokens else ""
    words = f"predicted kappa {before * ratio:.3g}, {ratio:.2f} of the original's {before:.3g} ({source}){limit}"
    return Remark("kappa", words, {"kappa": before * ratio, "before": before, "ratio": ratio})


def _rank(stage: StageFacts) -> Remark:
    dim = int(stage.head_dim[0])
    numbers: dict[str, float | str] = {"head_dim": dim, "before": stage.head_dim0, "floor": LOW_RANK}
    pair = None if stage.measured is None else stage.measured.bounds(dim)
    if pair is None:
        error = float(one_head(min(1.0, dim / stage.width)))
        words = (
            f"rank per head {dim} ({stage.head_dim0} before), the floor is {LOW_RANK}; if all {stage.width} directions "
            f"mattered alike, one head would err {error:.2f} at nearest-neighbour retrieval, where 0.5 is chance"
        )
        return Remark("rank", stage.label + words, numbers | {"isotropic_error": error})
    low, high = pair
    covers = f"{low:.2f}" if high - low < 0.005 else f"{low:.2f} to {high:.2f}"
    words = (
        f"rank per head {dim} ({stage.head_dim0} before) covers {covers} of the probed tokens' variance: one head "
        f"would err at least {float(one_head(high)):.2f} at nearest-neighbour retrieval, where 0.5 is chance"
    )
    return Remark("rank", stage.label + words, numbers | {"coverage_low": low, "coverage_high": high})


def _shares(facts: Facts) -> Remark:
    now, before = _attention_share(facts.params), _attention_share(facts.params0)
    words = f"attention has {now:.0%} of the layers' parameters ({before:.0%} before), the rest is mostly MLP"
    return Remark("shares", words, {"attention_share": now, "before": before})


def _attention_share(groups: Params) -> float:
    return float(np.ravel(groups.attention)[0] / np.ravel(groups.non_embedding)[0])


def _long(facts: Facts) -> Remark:
    now, before = int(facts.head_layers[0]), facts.head_layers0
    work = float(sum(s.depth[0] * s.inner[0] for s in facts.stages) / sum(s.depth0 * s.inner0 for s in facts.stages))
    words = f"head-layers {now} against {before}; attention between tokens, all that counts at length, costs {work:.2f}"
    return Remark("long_context", words, {"head_layers": now, "before": before, "attention_ratio": work})


def _gain(facts: Facts, stage: StageFacts, arch: Arch) -> Remark:
    """What one more head would bring and cost; where keys are shared, one more for each head of keys."""
    heads, dim, kv = int(stage.heads[0]), int(stage.head_dim[0]), int(stage.kv_heads[0])
    step = kv if kv != heads else 1
    stated = attentions(arch.stages[editable(arch)[0]])[0].kv_heads
    more = redesign(arch, heads=heads + step, head_dim=dim, kv_heads=heads + step if stated == heads else stated)
    price = params(more).total - params(arch).total
    logs = log_kappa(facts.original.stages[editable(facts.original)[0]], np.array([heads * dim, (heads + step) * dim]))
    change = exp(float(logs[1] - logs[0])) - 1
    what = "one head" if step == 1 else f"{step} heads"
    words = f"{what} more would move predicted kappa by {change:+.1%} for {price:,} parameters"
    return Remark("gain", words, {"kappa_change": change, "params": price})


def warnings(facts: Facts, i: int = 0) -> tuple[Remark, ...]:
    """Everything that speaks against design number `i`."""
    remarks = [rule.remark(facts, i) for rule in RULES if rule.holds(facts)[i]]
    return tuple(sorted(remarks, key=lambda remark: remark.level != "serious"))


def tally(facts: Facts) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many serious warnings and how many cautions each design carries."""
    serious, cautions = (np.zeros(len(facts.layers), np.int64) for _ in range(2))
    for rule in RULES:
        counted = serious if rule.level == "serious" else cautions
        counted += rule.holds(facts)
    return serious, cautions
