"""The rules that a record must keep to be a model. A broken rule is a `UserError` that says what to write instead."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import is_dataclass
from math import isqrt
from typing import TYPE_CHECKING, Any

from .arch import attentions, side
from .errors import UserError
from .field_checks import advice, conforms, hints, shown
from .mixing import turned
from .parts import (
    Attention,
    AttentionPooler,
    ClassAttention,
    Classify,
    ClassToken,
    Conv,
    ConvStem,
    Coordinates,
    Depthwise,
    Downsample,
    Features,
    Layer,
    Lm,
    LocalPatch,
    Masked,
    Mlp,
    Nested,
    Nystrom,
    Outlook,
    Pair,
    Patch,
    Pixel,
    Points,
    Pooler,
    Rope,
    Softmax,
    Stage,
    Token,
    Window,
)

if TYPE_CHECKING:
    from .arch import Arch

POSITIVE = {"cap", "scale", "stretch", "times"}  # numbers that are multiplied or divided by
ZERO_ALLOWED = {"class_tokens", "positions", "types", "hidden", "conv", "fourier", "head_dim", "first", "registers"}


def check(arch: Arch) -> None:
    """Raise a `UserError` for the first rule that `arch` breaks."""
    if not arch.stages:
        raise UserError("stages is empty: a model has at least one Stage")
    _leaves(arch)
    for i, stage in enumerate(arch.stages):
        _stage(stage, f"stages[{i}]")
    _embed(arch)
    _between(arch)
    _head(arch)


def _leaves(part: Any, where: str = "") -> None:
    """Types, ranges and choices of every number, word and part in the record, from the annotations of `parts`."""
    kind: type = type(part)
    for name, hint in hints(kind).items():
        value, place = getattr(part, name), f"{where}.{name}".lstrip(".")
        if not conforms(value, hint) or (isinstance(value, float) and value < 0):
            raise UserError(f"{place} is {shown(value)}; write {advice(value, hint)}")
        if name in POSITIVE and value == 0:
            raise UserError(f"{place} is 0; write a number above 0")
        if isinstance(value, int) and not isinstance(value, bool):
            least = 0 if name in ZERO_ALLOWED or hint is float else 1
            if value < least:
                raise UserError(f"{place} is {value}; write a number from {least} up")
        for spot, inner in _inside(value, place):
            _leaves(inner, spot)


def _inside(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    """The parts that stand in a field, with where they stand."""
    if isinstance(value, tuple):
        for i, item in enumerate(value):
            yield from _inside(item, f"{place}[{i}]")
    elif is_dataclass(value):
        yield place, value


def _stage(stage: Stage, where: str) -> None:
    if not stage.unit:
        raise UserError(f"{where}.unit is empty: a stage repeats at least one layer")
    for i, item in enumerate(stage.unit):
        if isinstance(item, Nested):
            _layer(item.inner, f"{where}.unit[{i}].inner", item.width, item.tokens)
            _layer(item.outer, f"{where}.unit[{i}].outer", stage.width, stage.tokens)
        else:
            _layer(item, f"{where}.unit[{i}]", stage.width, stage.tokens)


def _layer(layer: Layer, where: str, width: int, tokens: int) -> None:
    if not layer:
        raise UserError(f"{where} is empty: a layer is a tuple of Residual branches")
    for j, branch in enumerate(layer):
        spot = f"{where}[{j}]"
        op = branch.op
        if isinstance(op, Attention | ClassAttention):
            head_dim(op.heads, op.head_dim, width, spot)
        if isinstance(op, Attention):
            _attention(op, spot, tokens)
        if isinstance(op, ClassAttention) and branch.rows != "class":
            raise UserError(f"{spot}: class attention updates the class token only; write rows='class'")
        if isinstance(op, Depthwise | LocalPatch) and side(tokens) ** 2 != tokens:
            raise UserError(f"{spot}: a convolution needs a square grid, and {tokens} tokens are not one")
        if branch.place == "post" and branch.norm is None:
            raise UserError(f"{spot}: place='post' needs a norm to put there; write norm=Norm() or place='pre'")
        if branch.place == "post" and branch.after is not None:
            raise UserError(f"{spot}: place='post' norms the sum, and after norms what is added; write one of them")
        if branch.reads != "stream":
            _reads(layer, j, spot)


def _reads(layer: Layer, j: int, spot: str) -> None:
    """A branch that does not read what the branch before has written."""
    reads = layer[j].reads
    first = layer[0]
    softmax = isinstance(first.op, Attention) and isinstance(first.op.mix, Softmax)
    if j != 1 or len(layer) != 2 or not softmax or not isinstance(layer[1].op, Mlp):
        raise UserError(f"{spot}: reads={reads!r} goes with the MLP of a layer of softmax attention and MLP alone")
    if any(branch.place == "post" for branch in layer):
        raise UserError(f"{spot}: reads={reads!r} goes with place='pre' in both branches")
    if reads == "normed" and (first.norm is None or layer[j].norm is not None):
        raise UserError(
            f"{spot}: reads='normed' shares the norm of the branch before; write norm=None here, and a norm there"
        )


def divisors(number: int) -> list[int]:
    """All divisors of `number`, in order."""
    small = [d for d in range(1, isqrt(number) + 1) if number % d == 0]
    return small + [number // d for d in reversed(small) if d * d != number]


def nearest_divisors(number: int, near: int) -> list[int]:
    """The two divisors of `number` nearest to `near`."""
    return sorted(sorted(divisors(number), key=lambda d: abs(d - near))[:2])


def head_dim(heads: int, stated: int, width: int, where: str) -> None:
    """Refuse a head count whose head_dim is not stated, with the numbers that would do."""
    if stated:
        return
    if width % heads:
        close = nearest_divisors(width, heads)
        raise UserError(
            f"{where}: width {width} with {heads} heads and no head_dim: {width}/{heads} is not whole. State head_dim, "
            f"e.g. head_dim=64 (inner {64 * heads}), or split the width into {' or '.join(map(str, close))} heads"
        )
    raise UserError(
        f"{where}: {heads} heads and no head_dim. State it: head_dim={width // heads} splits the width {width}, "
        f"head_dim=64 gives inner {64 * heads}"
    )


def _attention(op: Attention, where: str, tokens: int) -> None:
    kv = op.kv_heads
    if kv is not None:
        if not isinstance(op.mix, Softmax):
            raise UserError(f"{where}: kv_heads goes with Softmax only, not with {type(op.mix).__name__}; leave it out")
        if op.heads % kv:
            raise UserError(
                f"{where}: {op.heads} heads cannot share {kv} kv_heads evenly; write one of {divisors(op.heads)}"
            )
    if isinstance(op.mix, Softmax):
        _softmax(op, op.mix, where)
    if isinstance(op.mix, Window) and side(tokens) ** 2 != tokens:
        raise UserError(f"{where}: windows need a square grid, and {tokens} tokens are not one")
    if isinstance(op.mix, Outlook):
        if op.mix.kernel % 2 == 0:
            raise UserError(f"{where}: an outlook of {op.mix.kernel} has no centre; write {op.mix.kernel + 1}")
        if side(tokens) ** 2 != tokens:
            raise UserError(f"{where}: outlook needs a square grid, and {tokens} tokens are not one")
    if op.qk_norm is not None and not isinstance(op.mix, Softmax):
        raise UserError(f"{where}: qk_norm goes with Softmax only, not with {type(op.mix).__name__}; leave it out")
    if isinstance(op.mix, Nystrom):
        if op.mix.landmarks > tokens:
            raise UserError(f"{where}: {op.mix.landmarks} landmarks for {tokens} tokens; write at most {tokens}")
        if op.mix.conv and op.mix.conv % 2 == 0:
            raise UserError(f"{where}: a convolution of {op.mix.conv} taps has no centre; write {op.mix.conv + 1}")
    if op.qk_norm is not None and op.qk_norm.kind not in QK_NORMS:
        raise UserError(f"{where}: qk_norm of kind {op.qk_norm.kind!r}; write one of {', '.join(map(repr, QK_NORMS))}")


QK_NORMS = ("rms", "layer", "rms_plus_one", "layer_no_bias")


def _softmax(op: Attention, mix: Softmax, where: str) -> None:
    if mix.rope is not None:
        if op.head_dim % 2:
            raise UserError(
                f"{where}: rotary positions turn pairs of channels; head_dim {op.head_dim} is odd, write "
                f"{op.head_dim - 1 or 2} or {op.head_dim + 1}"
            )
        if isinstance(mix.rope, Rope) and not 0 < mix.rope.share <= 1:
            raise UserError(f"{where}: rope.share is {mix.rope.share}; write a share of 1, such as 0.25")
        if not turned(mix.rope, op.head_dim):
            raise UserError(
                f"{where}: rotary positions turn a share of {mix.rope.share} of head_dim {op.head_dim}, which is less "  # type: ignore[union-attr]
                "than one pair of channels; write a larger head_dim"
            )
    if mix.window is not None and not mix.causal:
        raise UserError(f"{where}: a window of {mix.window} tokens looks back; write causal=true, or leave it out")


def _grid(image: int, patch: int, where: str) -> int:
    if image % patch:
        down, up = image // patch * patch, (image // patch + 1) * patch
        sizes = f"{down} or {up}" if down else f"{up}"
        raise UserError(f"{where}: image {image} is not a whole number of {patch}-pixel patches; write {sizes}")
    return image // patch


def _need(stage: Stage, tokens: int, why: str) -> None:
    if stage.tokens != tokens:
        raise UserError(f"stages[0].tokens is {stage.tokens}, but {why} gives {tokens}; write tokens={tokens}")


def _embed(arch: Arch) -> None:
    embed, first = arch.embed, arch.stages[0]
    match embed:
        case Patch():
            n = _grid(embed.image, embed.patch, "embed") ** 2 + embed.prefix
            _need(first, n, f"an image of {embed.image} in patches of {embed.patch}")
        case Pixel():
            n = _grid(embed.image, embed.patch, "embed") ** 2
            _need(first, n + 1, f"an image of {embed.image} in patches of {embed.patch}, with its class token")
            if embed.legacy and embed.patch % embed.stride:
                raise UserError(
                    f"the legacy embedding cuts patches of {embed.patch} after a stride of {embed.stride}, "
                    "which must divide the patch; write legacy=false or another stride"
                )
            pixels = (-(-embed.patch // embed.stride)) ** 2
            nested = [item for stage in arch.stages for item in stage.unit if isinstance(item, Nested)]
            if not nested or any(item.tokens != pixels for item in nested):
                raise UserError(
                    f"embed gives {pixels} pixels a patch: every layer must be a Nested with tokens={pixels}"
                )
            if len({item.width for item in nested}) > 1:
                raise UserError("nested layers differ in width: the pixels keep one width through the model")
        case ConvStem():
            _stem(embed.convs, first)
            grid = embed.image
            for conv in embed.convs:
                grid = conv_side(grid, conv)
            _need(first, grid**2, f"the stem on an image of {embed.image}")
        case Token():
            if embed.first and embed.first >= embed.positions:
                raise UserError(
                    f"embed.first is {embed.first}, and there are {embed.positions} rows of learned positions; write more "
                    "rows, or first=0"
                )
            if embed.positions and embed.places < first.tokens:
                raise UserError(
                    f"stages[0].tokens is {first.tokens}, beyond the {embed.places} positions of the "
                    f"embedding; write tokens up to {embed.places}"
                )
            if embed.positions and embed.sinusoid:
                raise UserError("embed has learned positions and a sinusoid; write positions=0 or sinusoid=false")
        case Points():
            if embed.positions == "concat" and first.width <= embed.dim:
                raise UserError(f"concatenated positions need width > dim: width {first.width}, dim {embed.dim}")
            if embed.positions != "concat" and first.width != embed.dim:
                raise UserError(f"points of R^{embed.dim} enter at width {embed.dim}, not {first.width}")


def _stem(convs: tuple[Conv, ...], first: Stage) -> None:
    if not convs:
        raise UserError("embed.convs is empty: a stem has at least one Conv")
    if convs[-1].out != first.width:
        raise UserError(
            f"the stem ends with {convs[-1].out} channels and the first stage has width {first.width}; write the same"
        )


def conv_side(grid: int, conv: Conv) -> int:
    """Side of the grid after one stem convolution."""
    if conv.stride == conv.kernel:
        return grid // conv.kernel
    return (grid + 2 * ((conv.kernel - 1) // 2) - conv.kernel) // conv.stride + 1


def _between(arch: Arch) -> None:
    """Widths and tokens from stage to stage."""
    if any(isinstance(item, Nested) for stage in arch.stages for item in stage.unit) != isinstance(arch.embed, Pixel):
        raise UserError("nested layers and a Pixel embedding go together: TNT has both, other families neither")
    if isinstance(arch.stages[0].enter, Downsample | ClassToken):
        raise UserError("stages[0].enter: nothing stands before the first stage; write Same()")
    for i, (before, after) in enumerate(zip(arch.stages, arch.stages[1:], strict=False), start=1):
        match after.enter:
            case Downsample(kernel=kernel):
                grid = -(-side(before.tokens) // kernel)
                if after.tokens != grid**2:
                    raise UserError(
                        f"stages[{i}].tokens is {after.tokens}; downsampling {before.tokens} tokens by "
                        f"{kernel} gives {grid**2}"
                    )
            case enter:
                grown = before.tokens + isinstance(enter, ClassToken)
                if after.tokens != grown:
                    raise UserError(f"stages[{i}].tokens is {after.tokens}; {type(enter).__name__} gives {grown}")
                if after.width != before.width:
                    raise UserError(
                        f"stages[{i}].width is {after.width} after {before.width}; a width changes only with Downsample"
                    )
    if not any(attentions(stage) for stage in arch.stages):
        raise UserError("no stage holds an Attention; write at least one")


def _head(arch: Arch) -> None:
    head, embed = arch.head, arch.embed
    classy = (
        isinstance(embed, Pixel)
        or (isinstance(embed, Patch) and embed.class_tokens > 0)
        or isinstance(embed, Token)
        or any(isinstance(stage.enter, ClassToken) for stage in arch.stages)
    )
    match head:
        case Classify():
            if head.pool in ("class", "class_and_patches") and not classy:
                raise UserError(f"head.pool is {head.pool!r} and the model has no class token; write pool='mean'")
            if head.pool in ("patches", "class_and_patches") and not isinstance(embed, Patch):
                raise UserError(f"head.pool is {head.pool!r}, which goes with a Patch embedding; write pool='mean'")
            if head.distill and not (isinstance(embed, Patch) and embed.class_tokens == 2):
                raise UserError("head.distill needs a distillation token; write class_tokens=2 in the Patch embedding")
        case Lm() | Masked() | Pair():
            if not isinstance(embed, Token):
                raise UserError(f"a {type(head).__name__} head needs a Token embedding, not {type(embed).__name__}")
        case Features(pooler=AttentionPooler(attention=asks)):
            head_dim(asks.heads, asks.head_dim, arch.stages[-1].width, "head.pooler")
        case Features(pooler=Pooler() as pooler):
            if pooler.pool == "class" and not classy:
                raise UserError("head.pooler.pool is 'class' and the model has no class token; leave the pooler out")
            if pooler.pool != "class" and not isinstance(embed, Token):
                raise UserError(f"head.pooler.pool is {pooler.pool!r}, which is for text; write pool='class'")
            if pooler.act is not None and pooler.out is None:
                raise UserError(
                    "head.pooler has an activation and no linear map before it; write out=WIDTH or act=None"
                )
        case Coordinates():
            if head.dim > arch.stages[-1].width:
                raise UserError(f"head.dim is {head.dim}, beyond the width {arch.stages[-1].width}")
