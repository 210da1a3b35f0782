"""Which modules of a model compute attention, by what they do in one forward: so that the probe can say what it left
out.

A module is attention-like where, while it runs, a softmax over the last dimension of four or more dimensions is taken,
or a softmax of fewer dimensions is multiplied by a computed matrix (its values), or a function named for attention is
called, such as `scaled_dot_product_attention`. It is the innermost running module that holds a weight matrix. A module
that did none of this, but whose class is named for attention and which has projections named for queries, keys or values,
is attention-like too.

What this cannot see: a softmax written out as exp and sum, attention without softmax, and compiled or scripted code,
unless the module is named for attention as above."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from .taps import Place, below, plain, qualified

SOFTMAX = ("softmax", "special_softmax", "_softmax", "_safe_softmax")
PRODUCTS = ("matmul", "__matmul__", "bmm", "baddbmm", "einsum")
NAMED = re.compile(r"att(n|ention)|multi_?head|mha", re.IGNORECASE)
ONE_ROW = "it has one query row, so its heads are no matrix of tokens"
PROJECTIONS = {"q", "k", "v", "qk", "kv", "qkv", "wq", "wk", "wv", "wqkv", "query", "key", "value", "attn"}


@dataclass(eq=False)
class Attending:
    """One module that was seen to attend: by which function, its query rows and its heads, where they are known, and
    the first module with a weight matrix that it called afterwards."""

    module: nn.Module
    function: str
    rows: int | None = None
    heads: int | None = None
    output: nn.Module | None = None


@dataclass(eq=False)
class Watch:
    """What ran in one forward: the modules that ran, and those of them that attended outside of the known places."""

    model: nn.Module
    places: Sequence[Place]
    ran: set[nn.Module] = field(default_factory=set)
    attending: dict[nn.Module, Attending] = field(default_factory=dict)
    running: list[nn.Module] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.known = {place.module for place in self.places}
        self.weighted = {part for part in self.model.modules() if any(p.ndim >= 2 for p in part.parameters())}

    def enter(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        """A module begins to run."""
        self.ran.add(module)
        self.running.append(module)
        weight = getattr(module, "weight", None)
        if isinstance(weight, Tensor) and weight.ndim == 2:
            for outer in reversed(self.running[:-1]):
                if (seen := self.attending.get(outer)) is not None:
                    seen.output = seen.output or module
                    return

    def leave(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        """A module has run. A module inside it that raised an error, which the model caught, has not left."""
        if module in self.running:
            while self.running.pop() is not module:
                pass

    def attends(self, function: str, rows: int | None, heads: int | None) -> None:
        """The running module attends."""
        if any(module in self.known for module in self.running):
            return
        at = next((module for module in reversed(self.running) if module in self.weighted), self.model)
        seen = self.attending.setdefault(at, Attending(at, function, rows, heads))
        if rows is not None:
            seen.rows = max(rows, seen.rows or 0)


@contextmanager
def watched(model: nn.Module, places: Sequence[Place]) -> Iterator[Watch]:
    """Watch every module of the model run inside the context, by hooks that are removed after it. Enter it before the
    hooks of the probe, which call functions of attention themselves."""
    watch = Watch(model, places)
    with ExitStack() as stack:
        for module in model.modules():
            if not isinstance(module, torch.jit.ScriptModule):
                stack.callback(module.register_forward_pre_hook(watch.enter).remove)
                stack.callback(module.register_forward_hook(watch.leave).remove)
        stack.enter_context(_Functions(watch))
        yield watch


class _Functions(TorchFunctionMode):
    """Tells `watch` of every softmax and every function named for attention."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self.watch = watch
        self.map: Tensor | None = None  # a softmax of two or three dimensions, which its values may follow

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        name = str(getattr(func, "__name__", func)).split(".")[0]
        if name in SOFTMAX and isinstance(out, Tensor) and out.ndim > 1:
            dim = kwargs.get("dim", args[1] if len(args) > 1 else -1)
            if dim not in (-1, out.ndim - 1):
                return out
            if out.ndim > 3:
                self.watch.attends("softmax", out.shape[-2], out.shape[-3])
            else:
                self.map = out
        elif name in PRODUCTS and self.map is not None:
            if _mixes(self.map, args, kwargs):
                self.watch.attends("softmax", self.map.shape[-2], None)
                self.map = None
        elif NAMED.search(name) and "softmax" not in name:
            self.watch.attends(name, *_shape(name, args, kwargs))
        return out


def _mixes(weights: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether these are factors of a product of attention weights with values, which no parameter holds."""
    factors = [value for value in _flat((*args, *kwargs.values())) if isinstance(value, Tensor)]
    store = weights.untyped_storage().data_ptr()
    others = [value for value in factors if value.untyped_storage().data_ptr() != store]
    return len(others) < len(factors) and any(not isinstance(value, nn.Parameter) for value in others)


def _flat(values: Sequence[Any]) -> list[Any]:
    return [part for value in values for part in (value if isinstance(value, list | tuple) else [value])]


def _shape(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int | None, int | None]:
    """Query rows and heads of a call of fused attention, where its layout is known."""
    query = next((value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)), None)
    if query is not None and name in ("scaled_dot_product_attention", "flex_attention"):
        return query.shape[-2], query.shape[-3] if query.ndim > 3 else None
    if query is not None and name == "multi_head_attention_forward":
        return query.shape[0], args[4]
    return None, None


@dataclass(frozen=True)
class AttentionModule:
    """One attention-like module of a model, as it ran on one batch.

    `listens` is the module whose input is the concatenated heads, as a dotted name below it (`arguments` where the heads
    are computed again from the module's own). `left_out` says in a sentence why the probe measured nothing here, and is
    empty where it did. `expected` is true of class attention, whose single row is no matrix of tokens. Where there is no
    tap, `candidate` is the module that may be the output projection, as a dotted name below this one."""

    name: str
    module: str
    heads: int | None
    listens: str = ""
    left_out: str = ""
    expected: bool = False
    candidate: str = ""

    @property
    def suggestion(self) -> str:
        """An entry of `taps` that may fit where there is none."""
        return f'"{self.name}": Tap("{self.candidate}", heads={self.heads or "..."})' if self.candidate else ""


def attention_modules(watch: Watch, measured: set[nn.Module], single: set[nn.Module]) -> tuple[AttentionModule, ...]:
    """Every attention-like module in the model's order. `measured` were measured; `single` ran with one query row."""
    places = {place.module: place for place in watch.places}
    named = _named_alone(watch)
    listed = []
    for full, module in watch.model.named_modules():
        name, cls = plain(full) or "the model itself", qualified(type(module))
        if module in places:
            listed.append(_known(places[module], cls, watch, measured, single))
        elif module in watch.attending:
            listed.append(_unknown(name, cls, watch.attending[module]))
        elif module in named:
            ran = (
                "no softmax or fused attention was seen in it"
                if module in watch.ran
                else "it did not run on this batch"
            )
            listed.append(
                AttentionModule(name, cls, None, left_out=f"it is named for attention, no tap knows it, and {ran}")
            )
    return tuple(listed)


def _named_alone(watch: Watch) -> set[nn.Module]:
    """Modules named for attention that neither lie in nor hold a module that is known, attends, or is so named."""
    certain = {*watch.known, *watch.attending}
    inside = {part for module in certain for part in module.modules()}
    named = {module for module in watch.model.modules() if module not in inside and _is_named(module)}
    return {module for module in named if not (certain | named) & ({*module.modules()} - {module})}


def _known(place: Place, cls: str, watch: Watch, measured: set[nn.Module], single: set[nn.Module]) -> AttentionModule:
    listens = "arguments" if place.output is None else below(place.module, place.output)
    why, expected = "", place.tap.kind == "class" and place.module in single
    if place.module not in measured:
        if place.module in single:
            why = ONE_ROW
        elif place.module in watch.ran:
            why = f"it ran without calling {listens}, its output projection"
        else:
            why = "it did not run on this batch"
    return AttentionModule(place.name, cls, place.heads, listens, why, expected)


def _unknown(name: str, cls: str, seen: Attending) -> AttentionModule:
    if seen.rows == 1:
        return AttentionModule(name, cls, seen.heads, left_out=ONE_ROW)
    candidate = "" if seen.output is None else below(seen.module, seen.output)
    why = f"no tap knows its class, and {seen.function} ran in it"
    return AttentionModule(name, cls, seen.heads, left_out=why, candidate=candidate)


def _is_named(module: nn.Module) -> bool:
    """Whether the class is named for attention, and its own parts for queries, keys or values."""
    if not NAMED.search(type(module).__name__):
        return False
    parts = [
        *(name for name, _ in module.named_children()),
        *(name for name, _ in module.named_parameters(recurse=False)),
    ]
    return any(PROJECTIONS & set(re.split(r"[_\d]+", name.lower())) for name in parts)
