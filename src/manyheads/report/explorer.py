"""The design explorer: its form on the page, its models with their dials, and what its scripts are handed.

Costs are JavaScript that is printed from the formulas of `arch.count`: a model of the zoo becomes a `Sketch` whose
numbers are symbols, and `params`, `forward_flops` and `training_bytes` of it are expressions over the dials. Families
with several stages are left out, since each stage would need dials of its own."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache
from html import escape
from typing import Any

from manyheads.arch import thresholds, zoo
from manyheads.arch.count import forward_flops, head_layers, kv_bytes, params, training_bytes
from manyheads.arch.redesign import SPLIT_TOLERANCE, edit
from manyheads.arch.symbol import Symbol, javascript
from manyheads.conditioning import gaussian_constants as gaussian
from manyheads.paper.rows import BY_ID
from manyheads.spec.arch import FAMILIES, Arch, Sketch, attentions, editable, mlps
from manyheads.spec.arch_rules import conv_side
from manyheads.spec.parts import ClassToken, ConvStem, Nystrom, Patch, Pixel, Softmax, Token

from .svg import HEIGHT, LEGEND_ROW, LETTER, TITLE_HEIGHT, WIDTH, resource

NAMES = ("depth", "heads", "head_dim", "mlp_dim", "image", "tokens", "batch")
# fmt: off
MODELS = (
    "vit_ti", "vit_s", "vit_b", "vit_l", "gpt2", "gpt2_tinystories", "bert_base", "crammed_bert", "llama_1b", "qwen3_0.6b",
    "xcit_s12", "xcit_m24", "xcit_l24", "tnt_s", "tnt_b", "nystromformer_listops", "nystromformer_text",
    "nystromformer_retrieval", "nystromformer_image", "nystromformer_pathfinder", "nearest_neighbor",
)
# fmt: on
FIRST = "vit_b"
# the pair of the first paper that a model is the original of: its lean row gives a preset for each policy
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
    """One number that a reader may change."""

    name: str
    least: int
    most: int
    step: int
    start: int


def dials(arch: Arch) -> list[Dial]:
    """What a reader may change about a model, and how far."""
    stage = arch.stages[editable(arch)[0]]
    op, mlp = attentions(stage)[0], mlps(stage)[0]
    group = op.heads // (op.kv_heads or op.heads)
    shape = [
        Dial("depth", 1, max(2 * stage.depth, 12), 1, stage.depth),
        Dial("heads", group, max(4 * op.heads, 64), group, op.heads),
        Dial("head_dim", 2, max(2 * op.head_dim, 128), 2, op.head_dim),
        Dial("mlp_dim", 32, 2 * mlp.mlp_dim, 32, mlp.mlp_dim),
    ]
    match arch.embed:
        case Patch() | Pixel():
            patch = arch.embed.patch
            return [*shape, Dial("image", 2 * patch, 32 * patch, patch, arch.embed.image)]
        case ConvStem():
            return [*shape, Dial("image", 32, 512, 16, arch.embed.image)]
        case Token(positions=positions):
            least = 2 * op.mix.landmarks if isinstance(op.mix, Nystrom) else 16
            return [*shape, Dial("tokens", least, positions or 4 * stage.tokens, 16, stage.tokens)]
        case _:
            return [*shape, Dial("tokens", 4, 256, 4, stage.tokens)]


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
    drawn = edit(
        Sketch(embed, tuple(stages), arch.head),
        kv_heads=shared,
        **{name: [Symbol(name)] for name in ("depth", "heads", "head_dim", "mlp_dim")},
    )
    return drawn, of_image


def _tokens(embed: Patch | Pixel | ConvStem) -> Any:
    grid: Any = embed.image
    if isinstance(embed, ConvStem):
        for conv in embed.convs:
            grid = conv_side(grid, conv)
        return grid**2
    return (grid // embed.patch) ** 2 + (embed.prefix if isinstance(embed, Patch) else 1)


def formulas(arch: Arch) -> dict[str, str]:
    """What a model costs, as JavaScript over the dials: a forward pass over one sample, a training step of a batch."""
    drawn, _ = sketch(arch)
    batch = Symbol("batch")
    return {
        "params": javascript(params(drawn).total),
        "non_embedding": javascript(params(drawn).non_embedding),
        "flops": javascript(forward_flops(drawn)),
        "memory": javascript(training_bytes(drawn, batch, "amp", True)),
        "memory_fp32": javascript(training_bytes(drawn, batch, "fp32", False)),
        "kv": javascript(kv_bytes(drawn)),
        "head_layers": javascript(head_layers(drawn)),
    }


def presets(name: str, arch: Arch) -> dict[str, dict[str, int]]:
    """The first paper's design for this model, read both ways: with head_dim kept and with inner kept."""
    if name not in PAIRS:
        return {}
    row, stage = BY_ID[f"{PAIRS[name]}/lean"], arch.stages[editable(arch)[0]]
    op = attentions(stage)[0]
    assert isinstance(row.depth, int)
    assert isinstance(row.heads, int)
    mlp = row.mlp if isinstance(row.mlp, int) else mlps(stage)[0].mlp_dim
    fixed = {"depth": row.depth, "heads": row.heads, "head_dim": op.head_dim, "mlp_dim": mlp}
    designs = {"the paper's, fixed": fixed}
    thin = round(op.inner / row.heads)
    if abs(thin * row.heads / op.inner - 1) <= SPLIT_TOLERANCE:
        designs["the paper's, split"] = fixed | {"head_dim": thin}
    return designs


def rules(names: tuple[str, ...] = MODELS) -> str:
    """Everything of the explorer that needs no page, as JavaScript: constants, models, prediction, warnings,
    designs."""
    return (
        f"const SETTINGS = {json.dumps(settings())};\nconst MODELS = {_models(names)};\n{resource('explorer_rules.js')}"
    )


def settings() -> dict[str, Any]:
    """The constants that the page's scripts share with Python."""
    return {
        "split_tolerance": SPLIT_TOLERANCE,
        "thresholds": {name.lower(): value for name, value in vars(thresholds).items() if name.isupper()},
        "gaussian": {name.lower(): value for name, value in vars(gaussian).items() if name.isupper()},
        "figure": {
            "width": WIDTH,
            "height": HEIGHT,
            "title_height": TITLE_HEIGHT,
            "legend_row": LEGEND_ROW,
            "letter": LETTER,
        },
    }


@cache
def _models(names: tuple[str, ...]) -> str:
    """All models as the text of one JavaScript object."""
    return "{" + ",\n".join(f"{json.dumps(name)}:{_model(name)}" for name in names) + "}"


def _model(name: str) -> str:
    arch = zoo.get(name)
    op = attentions(arch.stages[editable(arch)[0]])[0]
    facts = {
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
    return f"{{...{json.dumps(facts)},{functions}}}"


def markup() -> str:
    """The section with its form; explorer.js makes the dials, since each model has its own."""
    groups: dict[str, list[str]] = {}
    for name in MODELS:
        chosen = " selected" if name == FIRST else ""
        option = f'<option value="{name}"{chosen}>{escape(name)}: {escape(zoo.note(name))}</option>'
        groups.setdefault(FAMILIES[zoo.get(name).family].label, []).append(option)
    options = "".join(
        f'<optgroup label="{escape(label)}">{"".join(group)}</optgroup>' for label, group in groups.items()
    )
    return (
        '<section id="explorer" aria-labelledby="x"><h2 id="x">Design explorer</h2>'
        "<p>What a redesign costs, and what kappa, the condition number of its concatenated heads, would be if their "
        "entries were independent and normal. All models here are counted by the same formulas. A trained model's "
        "kappa is larger by orders of magnitude: use the prediction to compare two designs, by their ratio.</p>"
        "<noscript><p>The explorer needs JavaScript.</p></noscript>"
        f'<div class="explorer"><form id="x-form"><label for="x-model">original</label><select id="x-model">{options}'
        '</select><div id="x-dials"></div><div id="x-presets" class="tools"></div><strong>Warnings</strong>'
        '<ul id="x-warnings" class="warnings" aria-live="polite"></ul></form>'
        '<div><div class="wide" role="region" tabindex="0" aria-label="Costs of the design"><table id="x-costs"><thead>'
        '<tr><th scope="col"></th><th scope="col">design</th><th scope="col">original</th><th scope="col">ratio</th></tr>'
        '</thead><tbody></tbody></table></div><pre id="x-command"></pre>'
        '<figure data-name="explorer_kappa"><strong id="x-title">kappa over heads</strong>'
        '<svg class="plot" id="x-plot" viewBox="0 0 400 290" role="img" aria-labelledby="x-title"></svg>'
        "<figcaption>Predicted kappa at this number of tokens and this head_dim. Filled: the design; hollow: the "
        "original. The dotted upright line is where inner (heads x head_dim) equals tokens.</figcaption>"
        '<div class="tools"><button type="button" class="get" data-get="svg">SVG</button>'
        '<button type="button" class="get" data-get="png">PNG</button></div></figure>'
        "</div></div></section>"
    )
