"""What launches of our own kernels share: how torch.compile sees them, and the layouts they read and write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

LIBRARY = torch.library.Library("manyheads", "FRAGMENT")
PROGRAMS = 528  # four for each multiprocessor of an H100 or H200
_SIDES: dict[torch.device, torch.cuda.Stream] = {}


def operator(schema: str, fake: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A launch that is called as it is, and in a traced graph is the operator `schema` with the outputs of `fake`."""
    name = schema.partition("(")[0]

    def wrap(kernel: Callable[..., Any]) -> Callable[..., Any]:
        def launch(*args: Any) -> Any:
            with torch.cuda.device_of(args[0]):  # Triton launches on the current device
                return kernel(*args)

        LIBRARY.define(schema)
        LIBRARY.impl(name, launch, "CompositeExplicitAutograd")
        torch.library.register_fake(f"manyheads::{name}", fake, lib=LIBRARY)
        traced = getattr(torch.ops.manyheads, name)
        return lambda *args: traced(*args) if torch.compiler.is_compiling() else launch(*args)

    return wrap


def rows(x: Tensor) -> Tensor:
    """Any layout whose channels lie side by side."""
    return x if x.stride(-1) == 1 else x.contiguous()


def like(x: Tensor) -> Tensor:
    """An empty tensor for x's values that lies token by token, all heads of a token side by side."""
    batch, heads, tokens, dim = x.shape
    return x.new_empty(batch, tokens, heads, dim).transpose(1, 2)


@contextmanager
def beside(x: Tensor) -> Iterator[Callable[[], None]]:
    """What is launched within runs beside what is launched after it, until the function given is called: on a stream of
    its own where x is on a GPU. Tensors it works on are made before and freed after that."""
    if x.device.type != "cuda":
        yield lambda: None
        return
    here, side = torch.cuda.current_stream(x.device), _SIDES.get(x.device)
    if side is None:
        side = _SIDES[x.device] = torch.cuda.Stream(x.device)
    side.wait_stream(here)
    with torch.cuda.stream(side):
        yield lambda: here.wait_stream(side)


def ceil(a: int, b: int) -> int:
    """How many b hold a."""
    return -(-a // b)


def parts(tokens: int, groups: int, block: int) -> tuple[int, int]:
    """In how many parts the tokens of each of `groups` are worked on, and the tokens of a part."""
    blocks = ceil(tokens, block)
    chunk = ceil(blocks, min(blocks, ceil(PROGRAMS, groups))) * block
    return ceil(tokens, chunk), chunk
