"""Numbers as a person reads them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from manyheads.spec.errors import UserError

if TYPE_CHECKING:
    from manyheads.spec.arch import Arch

DIGITS = re.compile("[0-9]{1,300}")  # a whole number as `int` takes it; str.isdigit is true of a raised 2, too


def millions(count: float) -> str:
    """Parameters: 40.11 M, 192.9 k."""
    if count >= 1e9:
        return f"{count / 1e9:.3f} B"
    return f"{count / 1e6:.2f} M" if count >= 1e6 else f"{count / 1e3:.1f} k"


def in_layers(arch: Arch) -> int | None:
    """Non-embedding parameters of a model that reads tokens, to print beside its total; None for any other model."""
    from manyheads.arch.count import params
    from manyheads.spec.parts import Token

    return params(arch).non_embedding if isinstance(arch.embed, Token) else None


def parameters(total: int, layers: int | None) -> str:
    """A total, and for a language model beside it the number without its tables of vocabulary and positions."""
    return millions(total) if layers is None else f"{millions(total)}, of them {millions(layers)} in the layers"


def operations(count: float) -> str:
    """FLOPs: 35.13 G."""
    for size, unit in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")):
        if count >= size:
            return f"{count / size:.2f} {unit}"
    return f"{count:.0f}"


def size(count: float) -> str:
    """Bytes: 139.8 MB."""
    for step, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "KB")):
        if count >= step:
            return f"{count / step:.1f} {unit}"
    return f"{count:.0f} B"


def whole_numbers(text: str | None, name: str) -> int | list[int] | None:
    """`7` or `1,1,5,1` from the command line."""
    if text is None:
        return None
    try:
        values = [int(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"--{name} {text}: write a whole number, or one per stage as 1,1,5,1") from None
    return values[0] if len(values) == 1 else values
