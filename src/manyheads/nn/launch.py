"""What launches of our own kernels share: when they run, how torch.compile sees them, and what they read and write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

LIBRARY = torch.library.Library("manyheads", "FRAGMENT")
PROGRAMS = 528  # four for each multiprocessor of an H100 or H200
TRITON = find_spec("triton") is not None  # PyTorch for CUDA brings it
WANTED = True  # False within `without_kernels`
FARTHEST = 2**31  # numbers from a sample's first one: beyond, an offset does not fit 32 bits
_SIDES: dict[tuple[torch.device, int], torch.cuda.Stream] = {}  # by the stream that each is beside


def kernels_run(x: Tensor) -> bool:
    """Whether Triton kernels work on x: on a GPU, below float64, where they are wanted and can reach all of a sample,
    and not in a program that is being exported."""
    usable = TRITON and WANTED and x.device.type == "cuda" and x.dtype != torch.float64 and not exporting()
    return usable and reach(x) < FARTHEST


def reach(x: Tensor) -> int:
    """How far a sample's last number lies from its first."""
    far = 0
    for size, stride in zip(x.shape[1:], x.stride()[1:], strict=True):
        far += (size - 1) * stride
    return far


@contextmanager
def without_kernels() -> Iterator[None]:
    """PyTorch's own operations alone: ours have no forward derivative."""
    global WANTED
    before, WANTED = WANTED, False
    try:
        yield
    finally:
        WANTED = before


@torch.compiler.assume_constant_result  # type: ignore[misc]
def exporting() -> bool:
    """Whether a program is being exported. torch.compile takes `is_exporting` for True wherever it traces it."""
    return torch.compiler.is_exporting()


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


def beside(x: Tensor, small: Callable[[], Any], large: Callable[[], Any]) -> Any:
    """What `large` gives, with `small` running beside it: on a stream of its own where x is on a GPU. `small` only
    launches, on tensors made before; whatever becomes of `large`, what comes after waits for both."""
    if x.device.type != "cuda":
        small()
        return large()
    here = torch.cuda.current_stream(x.device)
    side = _SIDES.get((x.device, here.cuda_stream))
    if side is None:
        side = _SIDES[x.device, here.cuda_stream] = torch.cuda.Stream(x.device)
    side.wait_stream(here)
    try:
        with torch.cuda.stream(side):
            small()
        return large()
    finally:
        here.wait_stream(side)


def tile(size: int) -> int:
    """`size` rounded up to what a kernel works on."""
    return max(16, 1 << (size - 1).bit_length())


def ceil(a: int, b: int) -> int:
    """How many b hold a."""
    return -(-a // b)


def parts(tokens: int, groups: int, block: int) -> tuple[int, int]:
    """In how many parts the tokens of each of `groups` are worked on, and the tokens of a part."""
    blocks = ceil(tokens, block)
    chunk = ceil(blocks, min(blocks, ceil(PROGRAMS, groups))) * block
    return ceil(tokens, chunk), chunk
