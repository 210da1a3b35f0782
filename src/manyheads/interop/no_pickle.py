"""Foreign weights without unpickling."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

FORCED, FORBIDDEN = "TORCH_FORCE_WEIGHTS_ONLY_LOAD", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"


@contextmanager
def weights_only() -> Iterator[None]:
    """Inside, `torch.load` reads tensors and plain values alone, whatever its caller asks for. timm asks for that first,
    but loads a file from a URL once more without it where the first attempt ended with a TypeError."""
    before = {name: os.environ.pop(name, None) for name in (FORCED, FORBIDDEN)}
    os.environ[FORCED] = "1"
    try:
        yield
    finally:
        del os.environ[FORCED]
        os.environ.update({name: value for name, value in before.items() if value is not None})
