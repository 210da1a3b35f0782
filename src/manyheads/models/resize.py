"""Weights of a model for another image size: learned positions are interpolated, the rest stays.

ViT, DeiT, TNT and VOLO have tables of positions. XCiT's and DaViT's positions are functions of the grid, and stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from manyheads.spec.arch import Arch, side
from manyheads.spec.errors import UserError
from manyheads.spec.parts import ConvStem, Downsample, Patch, Pixel

SIZE = re.compile(r"embed\.image|stages\[\d+\]\.tokens")  # the fields that an image size determines


def resize(state: Mapping[str, Tensor], old: Arch, new: Arch) -> dict[str, Tensor]:
    """`state`, the weights of `old`, as weights of `new`, which differs from it in nothing but the image size.

    Positions are interpolated bicubically with antialiasing, as timm does; those of class tokens are kept."""
    if old == new:
        return dict(state)
    if not isinstance(old.embed, Patch | Pixel | ConvStem):
        raise UserError(f"a model of family {old.family!r} reads no images: there is no image size to change")
    fault = difference(old, new)
    if fault:
        raise UserError(f"only the image size may change when positions are interpolated, but {fault}")
    resized = dict(state)
    for (name, front, before), (_, _, after) in zip(tables(old), tables(new), strict=True):
        if name not in state or state[name].shape[0] != before:
            fault = f"has shape {tuple(state[name].shape)}" if name in state else "is missing"
            raise UserError(f"{name} {fault}; weights of this architecture have {before} rows there")
        resized[name] = resample(state[name], front, side(after - front))
    return resized


def tables(arch: Arch) -> Iterator[tuple[str, int, int]]:
    """Each table of learned positions: its name, how many rows belong to class tokens, how many rows it has."""
    tokens = arch.stages[0].tokens
    match arch.embed:
        case Patch(class_positions=True, class_tokens=front, registers=registers):
            yield "embed.positions", front, tokens - registers
        case Patch(prefix=prefix):
            yield "embed.positions", 0, tokens - prefix
        case Pixel():
            yield "embed.positions", 1, tokens
    for i, stage in enumerate(arch.stages):
        if isinstance(stage.enter, Downsample) and stage.enter.positions:
            yield f"stages.{i}.enter.positions", 0, stage.tokens


@torch.no_grad()
def resample(table: Float[Tensor, "rows width"], front: int, grid: int) -> Float[Tensor, "new_rows width"]:
    """The table of one square grid as that of a grid x grid. The first `front` rows are kept; half precision is
    interpolated in float32."""
    class_rows, rest = table[:front], table[front:]
    before = side(rest.shape[0])
    if before == grid:
        return table
    image = rest.to(torch.promote_types(table.dtype, torch.float32)).T.reshape(1, -1, before, before)
    image = F.interpolate(image, size=(grid, grid), mode="bicubic", antialias=True)
    return torch.cat((class_rows, image[0].flatten(1).T.to(table.dtype)))


def difference(a: Any, b: Any, where: str = "", sides: tuple[str, str] = ("in the weights", "in the model")) -> str:
    """The first place where two records differ in more than image and token counts, as a sentence; else an empty one.
    `sides` says what each of them is."""
    first, second = sides
    if is_dataclass(a) and type(a) is not type(b):
        return f"{where} is a {type(a).__name__} {first} and a {type(b).__name__} {second}"
    if isinstance(a, tuple) and isinstance(b, tuple):
        if len(a) != len(b):
            return f"{where} has length {len(a)} {first} and {len(b)} {second}"
        pairs = [(f"{where}[{i}]", x, y) for i, (x, y) in enumerate(zip(a, b, strict=True))]
    elif is_dataclass(a):
        names = [field.name for field in fields(a)]
        pairs = [(f"{where}.{name}".lstrip("."), getattr(a, name), getattr(b, name)) for name in names]
    else:
        return "" if a == b else f"{where} is {a!r} {first} and {b!r} {second}"
    return next((fault for at, x, y in pairs if not SIZE.fullmatch(at) and (fault := difference(x, y, at, sides))), "")
