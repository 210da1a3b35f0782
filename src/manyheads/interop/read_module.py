"""A user's own module as a record to plan with: its attentions and MLPs become layers, and the rest stays as it is."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from manyheads.arch.count import forward_flops, params
from manyheads.arch.families import stack
from manyheads.conditioning.attention_calls import recorded_calls
from manyheads.conditioning.plain_forward import arguments, call, untouched, unwrap
from manyheads.conditioning.site_numbers import as_matrices, one_row
from manyheads.conditioning.tap_table import Tap
from manyheads.conditioning.taps import find, find_mlps, qualified
from manyheads.planner.costs import Rest
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Norm

from . import read_timm
from .read_hf import from_config


@dataclass(frozen=True)
class Read:
    """What was read off a module.

    Where `exact` is true, the record is the whole model and can be built. Otherwise the record holds only the layers,
    `rest` the parameters and operations beside them, and `unread` says in sentences what could not be read."""

    arch: Arch
    rest: Rest
    exact: bool
    unread: tuple[str, ...]


@dataclass(frozen=True)
class _Layer:
    width: int
    tokens: int
    heads: int
    head_dim: int
    kv_heads: int
    mlp_dim: int
    gated: bool
    bias: bool


def from_module(module: nn.Module, batch: Any, *, taps: Mapping[str, Tap] | None = None) -> Read:
    """The record of `module`. It is called once with `batch`, as its forward is.

        read = from_module(model, images)
        plan(read.arch, Budget(params=0.5), rest=read.rest)

    A manyheads, timm or transformers model that a record can describe is read whole. Of any other model, the MLPs and
    the attention that `conditioning.taps` recognises (or that `taps` names) are read as one flat stack of layers."""
    module = unwrap(module)
    arch = getattr(module, "arch", None)  # a module of any class may have this attribute: its type decides
    if isinstance(arch, Arch):
        return Read(arch, Rest(), True, ())
    unread: list[str] = []
    try:
        if (whole := _whole(module, batch)) is not None:
            return Read(whole, Rest(), True, ())
    except UserError as error:
        unread.append(str(error))
    return _layers(module, batch, taps, unread)


def _whole(module: nn.Module, batch: Any) -> Arch | None:
    """The record of a timm or transformers model, or None for a module of another library."""
    if read_timm.known(module):
        size = batch.shape[-1] if isinstance(batch, Tensor) and batch.ndim == 4 else None
        return read_timm.read(module, image=size)
    if "transformers.modeling_utils.PreTrainedModel" not in map(qualified, type(module).__mro__):
        return None
    arch = from_config(module.config.to_dict() | {"architectures": [type(module).__name__]})  # type: ignore[operator,union-attr]
    counted, actual = params(arch).total, sum(p.numel() for p in module.parameters())
    if counted != actual:
        raise UserError(f"{type(module).__name__} has {actual:,} parameters and its configuration says {counted:,}")
    return arch


def _layers(module: nn.Module, batch: Any, taps: Mapping[str, Tap] | None, unread: list[str]) -> Read:
    places = find(module, taps)
    args, kwargs = arguments(batch, next(module.parameters()).device)
    with untouched(module), recorded_calls(module, places, arguments=True) as calls:
        call(module, args, kwargs)
    pooled = [entry for entry in calls if entry.place.tap.kind == "softmax" and one_row(entry)]
    unread += [f"{entry.place.name} has one query row and stays as it is" for entry in pooled]
    softmax = [entry for entry in calls if entry.place.tap.kind == "softmax" and entry not in pooled]
    others = Counter(entry.place.tap.kind for entry in calls if entry.place.tap.kind != "softmax")
    unread += [f"{count} {kind} attentions stay as they are" for kind, count in others.items()]
    if not softmax:
        why = f". The module was not read whole, since {unread[0]}" if len(unread) > len(others) else ""
        raise UserError(
            f"no softmax attention ran on this batch ({', '.join(others)} did), and in a module of your own only "
            f"softmax attention can be redesigned{why}"
        )
    mlps = _mlps(module, len(softmax), unread)
    norm = Norm("layer" if any(isinstance(part, nn.LayerNorm) for part in module.modules()) else "rms", 1e-5)
    rows = Counter(_layer(entry, mlp) for entry, mlp in zip(softmax, mlps, strict=True))
    layer, depth = rows.most_common(1)[0]
    if len(rows) > 1:
        unread.append(f"{sum(rows.values()) - depth} layers differ from the other {depth} and stay as they are")
    unread.append(
        f"each layer is assumed to have two norms of kind {norm.kind!r}; dropout, positions and masks are not read"
    )
    kv = None if layer.kv_heads == layer.heads else layer.kv_heads
    arch = stack(
        layer.width,
        depth,
        layer.heads,
        layer.head_dim,
        layer.mlp_dim,
        tokens=layer.tokens,
        kv_heads=kv,
        gated=layer.gated,
        bias=layer.bias,
        norm=norm,
    )
    return Read(arch, _rest(module, args, kwargs, arch, unread), False, tuple(unread))


def _mlps(module: nn.Module, layers: int, unread: list[str]) -> list[tuple[int, bool]]:
    """The width of each layer's MLP and whether it is gated; a width of 0 where MLPs and layers cannot be matched."""
    matches = find_mlps(module)
    if len(matches) != layers:
        unread.append(f"{len(matches)} MLPs are recognised beside {layers} attentions: MLPs stay as they are")
        return [(0, False)] * layers
    sizes = []
    for pair in matches:
        second, firsts = pair.second.weight, [part.weight for part in pair.firsts]
        assert isinstance(second, Tensor)
        hidden = max(second.shape)
        gated = sum(first.numel() for first in firsts if isinstance(first, Tensor)) == 2 * second.numel()
        sizes.append((hidden, gated))
    return sizes


def _layer(entry: Any, mlp: tuple[int, bool]) -> _Layer:
    tokens, inner = as_matrices(entry).shape[-2:]
    module, heads = entry.place.module, entry.place.heads
    matrices = sum(p.numel() for p in module.parameters() if p.ndim >= 2)
    assert entry.tokens is not None, "an attention is called with tokens"
    width, dim = entry.tokens.shape[-1], inner // heads
    shared = (matrices / width - 2 * inner) / 2 / dim  # what is left beside queries and output, halved
    kv = int(shared) if shared == int(shared) and shared and heads % int(shared) == 0 else heads
    bias = any(name.endswith("bias") for name, _ in module.named_parameters())
    return _Layer(
        width=width, tokens=tokens, heads=heads, head_dim=dim, kv_heads=kv, mlp_dim=mlp[0], gated=mlp[1], bias=bias
    )


def _rest(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], arch: Arch, unread: list[str]) -> Rest:
    """Parameters and operations of the module beside the layers that were read."""
    beside = max(0, sum(p.numel() for p in module.parameters()) - params(arch).total)
    try:
        empty = copy.deepcopy(module).to("meta").eval()
        inputs = [_on_meta(value) for value in (*args, *kwargs.values())]
        size = next(value.shape[0] for value in inputs if isinstance(value, Tensor))
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            empty(*inputs[: len(args)], **dict(zip(kwargs, inputs[len(args) :], strict=True)))
        flops = max(0, counter.get_total_flops() // size - int(forward_flops(arch)))
    except Exception as error:  # a foreign module may fail on the meta device with any exception
        unread.append(
            f"operations beside the layers could not be counted ({type(error).__name__}): FLOPs are those of the layers"
        )
        flops = 0
    return Rest(beside, flops)


def _on_meta(value: Any) -> Any:
    return value.to("meta") if isinstance(value, Tensor) else value
