"""The same architecture for another image size: tokens follow, nothing else moves."""

from __future__ import annotations

from dataclasses import replace

from manyheads.spec.arch import Arch, side
from manyheads.spec.check import conv_side
from manyheads.spec.errors import UserError
from manyheads.spec.parts import ClassToken, ConvStem, Downsample, Patch, Pixel


def at_image(arch: Arch, image: int) -> Arch:
    """`arch` for images of `image` x `image` pixels."""
    embed = arch.embed
    match embed:
        case Patch():
            tokens = (image // embed.patch) ** 2 + embed.class_tokens
        case Pixel():
            tokens = (image // embed.patch) ** 2 + 1
        case ConvStem():
            grid = image
            for conv in embed.convs:
                grid = conv_side(grid, conv)
            tokens = grid**2
        case _:
            raise UserError("this is no image model: set tokens instead of an image size")
    stages = []
    for stage in arch.stages:
        match stage.enter:
            case Downsample(kernel=kernel):
                tokens = (-(-side(tokens) // kernel)) ** 2
            case ClassToken():
                tokens = tokens + 1
        stages.append(replace(stage, tokens=tokens))
    return replace(arch, embed=replace(embed, image=image), stages=tuple(stages))
