"""What launches of our Triton kernels share: when they run, how torch.compile sees them, and the tensors they take."""

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
ALLOWED = True  # False within `without_kernels`
FARTHEST = 2**31  # elements from a sample's first one: an offset beyond does not fit 32 bits
_SIDES: dict[tuple[torch.device, int], torch.cuda.Stream] = {}  # by device and by the stream it runs beside


def kernels_run(x: Tensor) -> bool:
    """Whether Triton kernels work on x: on a GPU and in less than float64, where they are allowed, where offsets reach
    all of a sample, and not in a program that is being exported."""
    usable = TRITON and ALLOWED and x.device.type == "cuda" and x.dtype != torch.float64 and not exporting()
    return usable and reach(x) < FARTHEST


def reach(x: Tensor) -> int:
    """How many elements a sample's last one lies behind its first."""
    far = 0
    for size, stride in zip(x.shape[1:], x.stride()[1:], strict=True):
        far += (size - 1) * stride
    return far


@contextmanager
def without_kernels() -> Iterator[None]:
    """Within, only PyTorch's own operations run: our kernels have no forward derivative."""
    global ALLOWED
    before, ALLOWED = ALLOWED, False
    try:
        yield
    finally:
        ALLOWED = before


@torch.compiler.assume_constant_result  # type: ignore[misc]
def exporting() -> bool:
    """Whether a program is being exported. Traced directly, `is_exporting` is True for torch.compile as well."""
    return torch.compiler.is_exporting()


def operator(schema: str, fake: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorates a launch: it is called directly, but a traced graph holds the operator `schema`, whose outputs have the
    shapes that `fake` gives."""
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
    """x in a layout whose channels lie side by side: x itself if it has one, else a copy."""
    return x if x.stride(-1) == 1 else x.contiguous()


def like(x: Tensor) -> Tensor:
    """An empty tensor of x's shape, laid out token by token with all heads of a token side by side."""
    batch, heads, tokens, dim = x.shape
    return x.new_empty(batch, tokens, heads, dim).transpose(1, 2)


def beside(x: Tensor, small: Callable[[], Any], large: Callable[[], Any]) -> Any:
    """Returns what `large` returns and runs `small` beside it, on a stream of its own where x is on a GPU. `small` only
    launches kernels, on tensors made before. Even if `large` fails, later work on the stream waits for both."""
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
    """`size` rounded up to a tile of a kernel: a power of two, at least 16."""
    return max(16, 1 << (size - 1).bit_length())


def ceil(a: int, b: int) -> int:
    """a / b, rounded up."""
    return -(-a // b)


def parts(tokens: int, groups: int, block: int) -> tuple[int, int]:
    """The number of parts into which the tokens of each of `groups` are cut, and the tokens of a part."""
    blocks = ceil(tokens, block)
    chunk = ceil(blocks, min(blocks, ceil(PROGRAMS, groups))) * block
    return ceil(tokens, chunk), chunk
