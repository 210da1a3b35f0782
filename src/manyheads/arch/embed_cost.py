"""What it costs to make tokens: each kind of embedding, and what stands where tokens enter a stage."""

from __future__ import annotations

from manyheads.spec.arch_rules import conv_side
from manyheads.spec.parts import ClassToken, ConvStem, Downsample, Nested, Patch, Pixel, Points, Same, Stage, Token

from .quantities import Formulas, Num, Params, Saved, linear, matmul, norm_params


# ---------------------------------------------------------------------------------------------------------- patches
def patch_params(embed: Patch, first: Stage) -> Params:
    """The projection, class tokens, registers and mask token, positions, a norm."""
    projection = linear(embed.patch**2 * embed.channels, first.width, embed.bias)
    positions = first.tokens - (embed.registers if embed.class_positions else embed.prefix)
    vectors = positions + embed.prefix + embed.mask_token
    return Params(embedding=projection + vectors * first.width, norm=norm_params(embed.norm, first.width))


def patch_flops(embed: Patch, first: Stage) -> Num:
    """The projection of every patch."""
    return matmul(first.tokens - embed.prefix, embed.patch**2 * embed.channels, first.width)


def patch_saved(embed: Patch, first: Stage) -> Saved:
    """The images themselves, their patches, and what a norm reads."""
    pixels = embed.channels * embed.image**2
    return Saved(stream=pixels + (0 if embed.norm is None else first.tokens * first.width), compute=pixels)


# ---------------------------------------------------------------------------------------------------- convolutions
def stem_params(embed: ConvStem, first: Stage) -> Params:
    """Every convolution with its norm, and the projection of Fourier positions."""
    total, channels = Params(), embed.channels
    for conv in embed.convs:
        kernel = linear(channels * conv.kernel**2, conv.out, conv.bias)
        total += Params(embedding=kernel, norm=norm_params(conv.norm, conv.out))
        channels = conv.out
    return total + Params(embedding=linear(2 * embed.fourier, first.width, True) if embed.fourier else 0)


def stem_flops(embed: ConvStem, first: Stage) -> Num:
    """Every convolution, and the projection of Fourier positions."""
    total: Num = matmul(first.tokens, 2 * embed.fourier, first.width)
    grid, channels = embed.image, embed.channels
    for conv in embed.convs:
        grid = conv_side(grid, conv)
        total = total + matmul(grid**2, channels * conv.kernel**2, conv.out)
        channels = conv.out
    return total


def stem_saved(embed: ConvStem, first: Stage) -> Saved:
    """The images themselves, and what each convolution's norm and activation read and hand on."""
    grid, numbers = embed.image, embed.channels * embed.image**2
    for i, conv in enumerate(embed.convs):
        grid = conv_side(grid, conv)
        tensors = (conv.norm is not None) + (conv.act in ("gelu", "gelu_tanh", "quick_gelu", "silu"))
        numbers = numbers + grid**2 * conv.out * (tensors + (i + 1 < len(embed.convs)))
    return Saved(compute=numbers)


# ------------------------------------------------------------------------------------------------- pixels in patches
def pixel_params(embed: Pixel, first: Stage) -> Params:
    """Pixels by a convolution, with their positions; patches by a projection between two norms, with theirs and the
    class token."""
    flat, pixel = _flat(first), _nested(first).width
    pixels = linear(embed.channels * embed.kernel**2, pixel, True) + flat
    patches = linear(flat, first.width, True) + first.width + first.tokens * first.width
    norm = norm_params(embed.norm, flat) + norm_params(embed.norm, first.width)
    return Params(embedding=pixels + patches, norm=norm)


def pixel_flops(embed: Pixel, first: Stage) -> Num:
    """The convolution for every pixel and the projection of every patch."""
    nested, patches = _nested(first), first.tokens - 1
    pixels = matmul(patches * nested.tokens, embed.channels * embed.kernel**2, nested.width)
    return pixels + matmul(patches, _flat(first), first.width)


def pixel_saved(embed: Pixel, first: Stage) -> Saved:
    """The images, and what the two norms read and hand on."""
    patches = first.tokens - 1
    pixels = embed.channels * embed.image**2 + patches * _flat(first)
    return Saved(stream=patches * (_flat(first) + first.width), compute=pixels)


def _nested(first: Stage) -> Nested:
    nested = first.unit[0]
    assert isinstance(nested, Nested)
    return nested


def _flat(first: Stage) -> Num:
    """Columns of a patch's pixels side by side."""
    return _nested(first).width * _nested(first).tokens


# --------------------------------------------------------------------------------------------- tokens and points
def token_params(embed: Token, first: Stage) -> Params:
    """Tables of words, positions and types, a sinusoid's scale, a norm."""
    table = (embed.vocab + embed.positions + embed.types) * first.width
    return Params(embedding=table + 1 if embed.sinusoid else table, norm=norm_params(embed.norm, first.width))


def token_saved(embed: Token, first: Stage) -> Saved:
    """What the norm reads: a look-up keeps only whole numbers."""
    return Saved(stream=0 if embed.norm is None else first.tokens * first.width)


def points_params(embed: Points, first: Stage) -> Params:
    """Learned positions, where there are any."""
    columns = {"none": 0, "concat": first.width - embed.dim, "add": first.width}[embed.positions]
    return Params(embedding=first.tokens * columns)


def no_flops(*_: object) -> Num:
    """Look-ups and additions are free."""
    return 0


def nothing_saved(*_: object) -> Saved:
    """Nothing is kept."""
    return Saved()


def no_params(*_: object) -> Params:
    """Nothing is learned."""
    return Params()


# ------------------------------------------------------------------------------------------------- entering a stage
def downsample_params(enter: Downsample, stage: Stage, before: Stage) -> Params:
    """The convolution, the norm before it, the positions after it."""
    return Params(
        local=linear(before.width * enter.kernel**2, stage.width, True),
        norm=norm_params(enter.norm, before.width),
        embedding=stage.tokens * stage.width if enter.positions else 0,
    )


def downsample_flops(enter: Downsample, stage: Stage, before: Stage) -> Num:
    """The convolution."""
    return matmul(stage.tokens, before.width * enter.kernel**2, stage.width)


def downsample_saved(enter: Downsample, stage: Stage, before: Stage) -> Saved:
    """What the norm and the convolution read."""
    entering = before.tokens * before.width
    return Saved(stream=0 if enter.norm is None else entering, compute=entering)


def class_token_params(enter: ClassToken, stage: Stage, before: Stage) -> Params:
    """The token."""
    return Params(embedding=stage.width)


# params, flops and saved (embed, first stage)
EMBEDS: dict[type, Formulas] = {
    Patch: Formulas(patch_params, patch_flops, patch_saved),
    ConvStem: Formulas(stem_params, stem_flops, stem_saved),
    Pixel: Formulas(pixel_params, pixel_flops, pixel_saved),
    Token: Formulas(token_params, no_flops, token_saved),
    Points: Formulas(points_params, no_flops, nothing_saved),
}
# params, flops and saved (enter, stage, stage before)
ENTERS: dict[type, Formulas] = {
    Same: Formulas(no_params, no_flops, nothing_saved),
    Downsample: Formulas(downsample_params, downsample_flops, downsample_saved),
    ClassToken: Formulas(class_token_params, no_flops, nothing_saved),
}
