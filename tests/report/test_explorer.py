"""The explorer tells what Python tells: costs to the last unit, kappa to twelve digits, and the planner's warnings."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from typing import Any

import pytest

from manyheads.arch import zoo
from manyheads.arch.count import forward_flops, head_layers, kv_bytes, params, training_bytes
from manyheads.arch.families import nearest_neighbor
from manyheads.arch.redesign import at_image, policy_of, redesign
from manyheads.report.explorer import MODELS, Dial, dials, presets, rules
from manyheads.spec.arch import Arch, attentions, editable

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="node runs the page's JavaScript; not installed here")
TOLD = {"peak", "narrow", "split", "worse", "unchanged", "shallow_rank", "rank", "thin", "untried", "kernel", "dearer"}
CASES = 40


def javascript(script: str, *names: str) -> Any:
    """What a script that ends in an expression gives, with the page's own code before it."""
    body = f"{rules(names)}\nprocess.stdout.write(JSON.stringify((() => {{{script}}})()));"
    assert NODE is not None
    return json.loads(subprocess.run([NODE, "-"], input=body, capture_output=True, text=True, check=True).stdout)


def turned(name: str, count: int = CASES) -> list[dict[str, int]]:
    """Random settings of a model's dials, the original's own first."""
    rng, found = random.Random(name), dials(zoo.get(name))
    out = [{dial.name: dial.start for dial in found} | {"batch": 32}]
    for _ in range(count - 1):
        one = {dial.name: _near(dial, rng) for dial in found}
        out.append(one | {"batch": rng.randint(1, 256)})
    return out


def _near(dial: Dial, rng: random.Random) -> int:
    """The start as often as another value, so that designs that change one thing come up."""
    return dial.start if rng.random() < 0.4 else rng.randrange(dial.least, dial.most + 1, dial.step)


def built(name: str, design: dict[str, int], *, redesigned: bool = True) -> Arch:
    """The record of a design, checked as any other."""
    arch = zoo.get(name)
    if "image" in design:
        arch = at_image(arch, design["image"])
    elif name == "nearest_neighbor":
        arch = nearest_neighbor(tokens=design["tokens"])
    else:
        arch = redesign(arch, tokens=design["tokens"])
    if not redesigned:
        return arch
    op = attentions(arch.stages[editable(arch)[0]])[0]
    kv = None if op.kv_heads is None else design["heads"] * op.kv_heads // op.heads
    keys = ("depth", "heads", "head_dim", "mlp_dim")
    return redesign(arch, **{key: design[key] for key in keys}, kv_heads=kv)


@needs_node
@pytest.mark.parametrize("name", MODELS)
def test_costs_are_those_of_the_record_to_the_last_unit(name: str) -> None:
    cases = turned(name)
    found = javascript(f"return {json.dumps(cases)}.map(dials => design(MODELS[{json.dumps(name)}], dials));", name)
    for case, told in zip(cases, found, strict=True):
        arch = built(name, case)
        expected = {
            "params": params(arch).total,
            "non_embedding": params(arch).non_embedding,
            "flops": forward_flops(arch),
            "kv": kv_bytes(arch),
            "memory": training_bytes(arch, case["batch"], "amp", True),
            "memory_fp32": training_bytes(arch, case["batch"], "fp32", False),
            "head_layers": head_layers(arch),
            "tokens": arch.stages[editable(arch)[0]].tokens,
        }
        assert {key: told[key] for key in expected} == expected, case


@needs_node
def test_kappa_is_the_gaussian_prediction() -> None:
    from manyheads.conditioning.theory import gaussian_log_kappa

    rng = random.Random(1)
    shapes = [(rng.randint(1, 600), rng.randint(1, 8192)) for _ in range(300)]
    shapes += [(n, n + d) for n in (1, 2, 3, 17, 197, 1024) for d in (-1, 0, 1, 8, 15, 16, 17, 18) if n + d > 0]
    found = javascript(f"return {json.dumps(shapes)}.map(([tokens, inner]) => gaussian(tokens, inner));")
    for (tokens, inner), told in zip(shapes, found, strict=True):
        expected = gaussian_log_kappa(tokens, inner)
        assert told["mean"] == pytest.approx(expected.mean, rel=1e-12, abs=1e-12), (tokens, inner)
        assert told["spread"] == pytest.approx(expected.spread, rel=1e-12, abs=1e-12), (tokens, inner)


@needs_node
@pytest.mark.parametrize("name", ["vit_b", "vit_ti", "gpt2", "bert_base", "llama_1b", "xcit_s12", "nystromformer_text"])
def test_warnings_and_policy_are_the_planners(name: str) -> None:
    from manyheads.planner.costs import Use
    from manyheads.planner.design_facts import facts
    from manyheads.planner.reasons_and_warnings import warnings

    cases = turned(name, 60)
    found = javascript(
        f"""const model = MODELS[{json.dumps(name)}];
      return {json.dumps(cases)}.map(dials => {{
        const now = design(model, dials), was = original(model, dials);
        return [warnings(now, was, model.softmax).map(one => [one.code, one.level]), policy(now, was)]; }});""",
        name,
    )
    seen = set()
    for case, (told, kind) in zip(cases, found, strict=True):
        was, now = built(name, case, redesigned=False), built(name, case)
        notes = warnings(facts(was, now, Use(batch=case["batch"], precision="amp", fused=True)))
        assert {tuple(one) for one in told} == {(note.code, note.level) for note in notes if note.code in TOLD}, case
        assert kind == policy_of(was, now), case
        seen |= {code for code, _ in told}
    assert len(seen) >= 4, "these designs try too little"


def test_dials_start_at_the_original_and_reach_the_papers_designs() -> None:
    for name in MODELS:
        arch = zoo.get(name)
        found = {dial.name: dial for dial in dials(arch)}
        for dial in found.values():
            assert dial.least <= dial.start <= dial.most, (name, dial)
            assert (dial.start - dial.least) % dial.step == 0, (name, dial)
        for design in presets(name, arch).values():
            for key, value in design.items():
                assert found[key].least <= value <= found[key].most, (name, key)
    assert presets("vit_b", zoo.get("vit_b")) == {
        "the paper's, fixed": {"depth": 7, "heads": 16, "head_dim": 64, "mlp_dim": 1536},
        "the paper's, split": {"depth": 7, "heads": 16, "head_dim": 48, "mlp_dim": 1536},
    }
    assert presets("gpt2_tinystories", zoo.get("gpt2_tinystories"))["the paper's, split"]["head_dim"] == 32


def test_every_family_that_has_one_stage_is_there() -> None:
    flat = {zoo.get(name).family for name in zoo.NAMES if len(editable(zoo.get(name))) == 1}
    assert {zoo.get(name).family for name in MODELS} == flat - {"deit"}  # whose records are ViT's
