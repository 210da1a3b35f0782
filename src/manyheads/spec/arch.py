"""What a model is: `Arch`, a validated record of embedding, stages and head.

    Arch(family, embed, stages, head)          embed: Patch | ConvStem | Pixel | Token | Points
    Stage(width, tokens, depth, unit, enter)   unit: a tuple of layers, repeated depth times
    Layer = tuple of Residual(op, norm, ...)   op: Attention | ClassAttention | Mlp | Depthwise | LocalPatch
    Nested(inner, fuse, outer)                 TNT, in place of a layer

A `Sketch` has the same three fields and is not validated: its numbers may be arrays or symbols, so that one set of
formulas (`arch.count`) costs one design or a million.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import isqrt

from .errors import UserError, nearest
from .parts import Attention, ClassAttention, Embed, Head, Layer, Lm, Mlp, Nested, Residual, Stage

SCHEMA = 1


@dataclass(frozen=True)
class Family:
    """Models of one code: what people call them, and the dialects of that code (see `Arch`)."""

    label: str
    dialects: tuple[str, ...] = ("",)


FAMILIES = {
    "vit": Family("ViT", dialects=("", "dinov2", "clip", "siglip")),
    "deit": Family("DeiT"),
    "xcit": Family("XCiT"),
    "tnt": Family("TNT"),
    "volo": Family("VOLO"),
    "davit": Family("DaViT"),
    "crammed_bert": Family("Crammed BERT"),
    "bert": Family("BERT", dialects=("", "roberta", "clip", "siglip")),
    "gpt2": Family("GPT-2", dialects=("", "stories")),
    "llama": Family("Llama, Mistral, Qwen"),
    "gemma": Family("Gemma"),
    "gpt_neox": Family("GPT-NeoX, Phi"),
    "opt": Family("OPT"),
    "nystromformer": Family("Nyströmformer"),
    "nearest_neighbor": Family("rank paper"),
    "stack": Family("layers of a user's own module"),
}


@dataclass(frozen=True)
class Sketch:
    """An architecture whose numbers may be arrays or symbols. Counted, never built, never saved."""

    embed: Embed
    stages: tuple[Stage, ...]
    head: Head


@dataclass(frozen=True)
class Arch:
    """One model, exactly. Refuses a wrong record with a sentence that says what to write instead.

    `dialect` names the code that a family's model follows where several differ in what no other field holds
    (initialisation, dropout): "" is the usual one, OpenAI's for GPT-2, and "stories" is the first paper's TinyStories
    GPT (its Table 2). BERT's dialect "roberta" counts positions over the tokens that are not padding; "clip" and "siglip"
    are the two towers of these models, "dinov2" a ViT of self-supervised features."""

    family: str
    embed: Embed
    stages: tuple[Stage, ...]
    head: Head
    schema: int = SCHEMA
    dialect: str = ""

    def __post_init__(self) -> None:
        from .arch_rules import check

        if not isinstance(self.family, str) or self.family not in FAMILIES:
            hint = nearest(str(self.family), FAMILIES) or f"; known families: {', '.join(FAMILIES)}"
            raise UserError(f"family {self.family!r} is not known{hint}")
        if self.schema != SCHEMA:
            raise UserError(
                f"schema {self.schema!r}: a record in memory has schema {SCHEMA}; older files are upgraded "
                "when they are loaded, newer ones need a newer manyheads"
            )
        dialects = FAMILIES[self.family].dialects
        if self.dialect not in dialects:
            raise UserError(
                f"dialect is {self.dialect!r}; for family {self.family!r} write one of {', '.join(map(repr, dialects))}"
            )
        check(self)


def unstated_dialect(family: str, head: Head) -> str:
    """The dialect of a record that states none. Records older than the field are GPT-2's TinyStories dialect where the
    head has a bias; those records keep their run ids, so the field is written only where it differs from this."""
    return "stories" if family == "gpt2" and isinstance(head, Lm) and head.bias else ""


def layers(stage: Stage) -> Iterator[Layer]:
    """The layers of one unit that a redesign may edit: TNT's outer layer stands for its nested block."""
    for item in stage.unit:
        yield item.outer if isinstance(item, Nested) else item


def residuals(stage: Stage) -> Iterator[Residual]:
    """The residual branches of one unit, TNT's inner ones left out."""
    for layer in layers(stage):
        yield from layer


def with_residuals(arch: Arch, change: Callable[[Residual], Residual]) -> Arch:
    """`arch` with `change` applied to every residual branch; TNT's nested blocks stay as they are."""

    def with_changes(stage: Stage) -> Stage:
        unit = (item if isinstance(item, Nested) else tuple(map(change, item)) for item in stage.unit)
        return replace(stage, unit=tuple(unit))

    return replace(arch, stages=tuple(map(with_changes, arch.stages)))


def attentions(stage: Stage) -> tuple[Attention, ...]:
    """The attentions of one unit: class attention and TNT's inner attention are not among them, by type."""
    return tuple(r.op for r in residuals(stage) if isinstance(r.op, Attention))


def mlps(stage: Stage) -> tuple[Mlp, ...]:
    """The MLPs of one unit that work on all tokens."""
    return tuple(r.op for r in residuals(stage) if isinstance(r.op, Mlp) and r.rows == "all")


def editable(arch: Arch | Sketch) -> tuple[int, ...]:
    """Indices of the stages that hold attention a redesign may change."""
    return tuple(i for i, stage in enumerate(arch.stages) if attentions(stage))


def class_attentions(stage: Stage) -> tuple[ClassAttention, ...]:
    """The class attentions of one unit."""
    return tuple(r.op for r in residuals(stage) if isinstance(r.op, ClassAttention))


def side(tokens: int) -> int:
    """Side of the square grid that `tokens` tokens form."""
    return isqrt(tokens)
