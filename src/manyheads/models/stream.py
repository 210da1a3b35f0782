"""A safetensors file, written tensor by tensor, so that they need not be in memory together."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from manyheads.spec.errors import UserError
from manyheads.spec.files import writing

Layout = Mapping[str, tuple[torch.dtype, tuple[int, ...]]]  # name of a tensor -> its type and shape
DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


def write_tensors(path: Path, layout: Layout, tensor: Callable[[str], Tensor]) -> None:
    """Write the tensors of `layout`, each as `tensor(name)` gives it when its turn comes. The bytes are those that
    `safetensors` writes. The file appears when it is whole."""
    names = sorted(layout, key=lambda name: (-layout[name][0].itemsize, name))
    head: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name in names:
        dtype, shape = layout[name]
        if dtype not in DTYPES:
            raise UserError(f"{name} is of type {str(dtype).removeprefix('torch.')}, which is not written")
        begin, end = end, end + dtype.itemsize * torch.Size(shape).numel()
        head[name] = {"dtype": DTYPES[dtype], "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(head, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    with writing(path) as partial, partial.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in names:
            value = tensor(name).detach().cpu().contiguous()
            assert (value.dtype, tuple(value.shape)) == layout[name], name
            file.write(memoryview(value.reshape(-1).view(torch.uint8).numpy()))
