"""The design explorer's models: dials, and costs as JavaScript printed from the very formulas of `arch.count`.

A model of the zoo becomes a `Sketch` whose numbers are symbols; what `params`, `forward_flops` and `training_bytes`
make of it is an expression over the dials. Families with several stages are left out: they would need a dial for each.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from manyheads.arch import zoo
from manyheads.arch.count import forward_flops, head_layers, kv_bytes, params, training_bytes
from manyheads.arch.redesign import SPLIT_TOLERANCE, edit
from manyheads.arch.symbol import Symbol, javascript
from manyheads.paper.rows import BY_ID
from manyheads.spec.arch import Arch, Sketch, attentions, editable, mlps
from manyheads.spec.check import conv_side
from manyheads.spec.parts import ClassToken, ConvStem, Nystrom, Patch, Pixel, Softmax, Token

NAMES = ("depth", "heads", "head_dim", "mlp_dim", "image", "tokens", "batch")
# fmt: off
MODELS = (
    "vit_ti", "vit_s", "vit_b", "vit_l", "gpt2", "gpt2_tinystories", "bert_base", "crammed_bert", "llama_1b", "qwen3_0.6b",
    "xcit_s12", "xcit_m24", "xcit_l24", "tnt_s", "tnt_b", "nystromformer_listops", "nystromformer_text",
    "nystromformer_retrieval", "nystromformer_image", "nystromformer_pathfinder", "nearest_neighbor",
)
# fmt: on
FIRST = "vit_b"
# the paper's pair of a model: its lean row gives two presets, one for each policy
PAIRS = {
    "vit_b": "vit_b",
    "vit_l": "vit_l",
    "xcit_m24": "xcit_m",
    "xcit_l24": "xcit_l",
    "tnt_b": "tnt_b",
    "crammed_bert": "crammed_bert",
    "gpt2_tinystories": "gpt2",
} | {f"nystromformer_{task}": task for task in ("listops", "text", "retrieval", "image", "pathfinder")}


@dataclass(frozen=True)
class Dial:
    """One number that a reader may turn."""

    name: str
    least: int
    most: int
    step: int
    start: int


def dials(arch: Arch) -> list[Dial]:
    """What can be turned about a model, and how far."""
    stage = arch.stages[editable(arch)[0]]
    op, mlp = attentions(stage)[0], mlps(stage)[0]
    group = op.heads // (op.kv_heads or op.heads)
    made = [
        Dial("depth", 1, max(2 * stage.depth, 12), 1, stage.depth),
        Dial("heads", group, max(4 * op.heads, 64), group, op.heads),
        Dial("head_dim", 2, max(2 * op.head_dim, 128), 2, op.head_dim),
        Dial("mlp_dim", 32, 2 * mlp.mlp_dim, 32, mlp.mlp_dim),
    ]
    match arch.embed:
        case Patch() | Pixel():
            return [
                *made,
                Dial("image", 2 * arch.embed.patch, 32 * arch.embed.patch, arch.embed.patch, arch.embed.image),
            ]
        case ConvStem():
            return [*made, Dial("image", 32, 512, 16, arch.embed.image)]
        case Token(positions=positions):
            least = 2 * op.mix.landmarks if isinstance(op.mix, Nystrom) else 16
            return [*made, Dial("tokens", least, positions or 4 * stage.tokens, 16, stage.tokens)]
        case _:
            return [*made, Dial("tokens", 4, 256, 4, stage.tokens)]


def sketch(arch: Arch) -> tuple[Sketch, Any]:
    """The model with a symbol for each dial, and its tokens as an expression over the image, where it has one."""
    tokens: Any = Symbol("tokens")
    embed, of_image = arch.embed, tokens
    if isinstance(embed, Patch | Pixel | ConvStem):
        embed = replace(embed, image=Symbol("image"))  # type: ignore[arg-type]
        of_image = _tokens(embed)
    stages = []
    for stage in arch.stages:
        tokens = tokens + 1 if isinstance(stage.enter, ClassToken) else tokens
        stages.append(replace(stage, tokens=tokens))
    op = attentions(arch.stages[editable(arch)[0]])[0]
    shared = None if op.kv_heads is None else Symbol("heads") // (op.heads // op.kv_heads)
    made = edit(
        Sketch(embed, tuple(stages), arch.head),
        kv_heads=shared,
        **{name: [Symbol(name)] for name in ("depth", "heads", "head_dim", "mlp_dim")},
    )
    return made, of_image


def _tokens(embed: Patch | Pixel | ConvStem) -> Any:
    grid: Any = embed.image
    if isinstance(embed, ConvStem):
        for conv in embed.convs:
            grid = conv_side(grid, conv)
        return grid**2
    return (grid // embed.patch) ** 2 + (embed.class_tokens if isinstance(embed, Patch) else 1)


def formulas(arch: Arch) -> dict[str, str]:
    """What a model costs, as JavaScript over the dials: one example of a forward pass, one step of training of a
    batch."""
    made, _ = sketch(arch)
    batch = Symbol("batch")
    return {
        "params": javascript(params(made).total),
        "non_embedding": javascript(params(made).non_embedding),
        "flops": javascript(forward_flops(made)),
        "memory": javascript(training_bytes(made, batch, "amp", True)),
        "memory_fp32": javascript(training_bytes(made, batch, "fp32", False)),
        "kv": javascript(kv_bytes(made)),
        "head_layers": javascript(head_layers(made)),
    }


def presets(name: str, arch: Arch) -> dict[str, dict[str, int]]:
    """Designs of the first paper for this model, read with head_dim kept and with inner kept."""
    if name not in PAIRS:
        return {}
    row, stage = BY_ID[f"{PAIRS[name]}/lean"], arch.stages[editable(arch)[0]]
    op = attentions(stage)[0]
    assert isinstance(row.depth, int)
    assert isinstance(row.heads, int)
    mlp = row.mlp if isinstance(row.mlp, int) else mlps(stage)[0].mlp_dim
    found = {"the paper's, fixed": {"depth": row.depth, "heads": row.heads, "head_dim": op.head_dim, "mlp_dim": mlp}}
    thin = round(op.inner / row.heads)
    if abs(thin * row.heads / op.inner - 1) <= SPLIT_TOLERANCE:
        found["the paper's, split"] = found["the paper's, fixed"] | {"head_dim": thin}
    return found


@cache
def models(names: tuple[str, ...] = MODELS) -> str:
    """All models as the text of one JavaScript object."""
    return "{" + ",\n".join(f"{json.dumps(name)}:{_model(name)}" for name in names) + "}"


def _model(name: str) -> str:
    arch = zoo.get(name)
    op = attentions(arch.stages[editable(arch)[0]])[0]
    known = {
        "family": arch.family,
        "note": zoo.note(name),
        "softmax": isinstance(op.mix, Softmax),
        "language": isinstance(arch.embed, Token),
        "dials": [[dial.name, dial.least, dial.most, dial.step, dial.start] for dial in dials(arch)],
        "presets": presets(name, arch),
    }
    costs = ",".join(f"{key}:{text}" for key, text in formulas(arch).items())
    _, tokens = sketch(arch)
    functions = f"tokens:({{image,tokens}})=>{javascript(tokens)},cost:({{{','.join(NAMES)}}})=>({{{costs}}})"
    return f"{{...{json.dumps(known)},{functions}}}"
