"""How much each head and each MLP unit of a trained model is used, and which ones to cut for a number of parameters.

The use of a head or unit is the mean square of what it adds to the residual stream, over the tokens of some batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.arch.count import params
from manyheads.arch.layer_edits import attention_and_mlp, heads_of, layer_list, mlp_of, with_cuts, with_layers
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Layer
from manyheads.spec.transplant import Cut

Call = Callable[[nn.Module, Any], Any]


@dataclass(frozen=True)
class LayerUse:
    """The use of every head and of every MLP unit of one layer."""

    heads: tuple[float, ...]
    units: tuple[float, ...]


def forward(model: nn.Module, batch: Any) -> Any:
    """The model on a batch that is a tuple of its arguments."""
    return model(*batch)


@torch.no_grad()
def measure_use(model: nn.Module, batches: Iterable[Any], call: Call = forward) -> list[LayerUse]:
    """The use of the heads and units of every layer. `call` runs the model on a batch; the model is put into evaluation
    mode and left in the mode it had."""
    blocks: Any = model.blocks
    records = [attention_and_mlp(layer) for layer in layer_list(_arch(model))]
    heads = [_Moments(heads_of(attention).head_dim) for attention, _ in records]
    units = [_Moments(1) for _ in records]
    seen = 0
    with evaluating(model), _listening(blocks, heads, units):
        for batch in batches:
            call(model, batch)
            seen += 1
    if not seen:
        raise UserError("no batch was given to measure the use of heads and units on; give at least one")
    return [
        LayerUse(moments.use(block.attention), hidden.use(block.mlp))
        for block, moments, hidden in zip(blocks, heads, units, strict=True)
    ]


def _arch(model: nn.Module) -> Arch:
    arch = model.arch
    assert isinstance(arch, Arch)
    return arch


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """The model in evaluation mode, and afterwards in the mode it had."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


class _Moments:
    """The mean of x x^T over tokens, for every group of `size` columns of a branch's last input."""

    def __init__(self, size: int) -> None:
        self.size, self.tokens = size, 0
        self.total: Tensor | None = None

    def __call__(self, module: nn.Module, args: tuple[Tensor, ...]) -> None:
        x = args[0].flatten(0, -2).unflatten(-1, (-1, self.size)).float()  # tokens, groups, size
        new = torch.einsum("tgi,tgj->gij", x, x).double()
        self.total = new if self.total is None else self.total + new
        self.tokens += x.shape[0]

    def use(self, branch: Any) -> tuple[float, ...]:
        """The mean square of what each group adds to the residual stream."""
        if self.total is None:
            raise UserError("a layer was not reached by these batches; give batches that the whole model sees")
        columns = branch.op.out.weight.double()
        if branch.scale is not None:
            columns = columns * branch.scale.double()[:, None]
        columns = columns * getattr(branch.op.spec, "out_scale", 1.0)
        groups = columns.unflatten(1, (-1, self.size))  # width, groups, size
        grams = torch.einsum("wgi,wgj->gij", groups, groups)
        return tuple(((self.total * grams).sum(dim=(1, 2)) / self.tokens).tolist())


@contextmanager
def _listening(blocks: Any, heads: Sequence[_Moments], units: Sequence[_Moments]) -> Iterator[None]:
    hooks = []
    for block, one, other in zip(blocks, heads, units, strict=True):
        hooks.append(block.attention.op.out.register_forward_pre_hook(one))
        hooks.append(block.mlp.op.out.register_forward_pre_hook(other))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def least_used(
    arch: Arch, use: Sequence[LayerUse], most_params: int, *, units: bool = True, heads: bool = True, multiple: int = 8
) -> tuple[Cut, ...]:
    """The heads and MLP units to cut, those of least use for each parameter first, until the model has at most
    `most_params` parameters. Units go `multiple` at a time, which keeps matrices in sizes that processors like; one
    group of heads and one block of units stay in every layer."""
    layers = layer_list(arch)
    total = params(arch).total
    pieces = [
        piece
        for number, (layer, one) in enumerate(zip(layers, use, strict=True))
        for piece in _pieces(number, layer, one, units, heads, multiple, arch)
    ]
    gone: dict[int, tuple[set[int], set[int]]] = {number: (set(), set()) for number in range(len(layers))}
    order = sorted(pieces, key=lambda piece: piece.use / piece.params)
    for coarse in (False, True):  # a piece much larger than what is still to go waits until nothing smaller is left
        for piece in order:
            lost = gone[piece.layer][piece.kind]
            if total <= most_params or lost.issuperset(piece.members) or len(lost) + len(piece.members) >= piece.of:
                continue
            if coarse or piece.params < 2 * (total - most_params):
                lost.update(piece.members)
                total -= piece.params
    if total > most_params:
        raise UserError(
            f"cutting leaves {total:,} parameters, which is more than {most_params:,}; fold or drop more layers first"
        )
    cuts = ((number, tuple(sorted(a)), tuple(sorted(b))) for number, (a, b) in gone.items())
    return tuple(Cut(number, a, b) for number, a, b in cuts if a or b)


@dataclass(frozen=True)
class _Piece:
    """Heads (`kind` 0) or units (1) of a layer that are cut together."""

    layer: int
    kind: int
    members: tuple[int, ...]
    of: int
    use: float
    params: int


def _pieces(
    number: int, layer: Layer, use: LayerUse, units: bool, heads: bool, multiple: int, arch: Arch
) -> Iterator[_Piece]:
    attention, mlp = attention_and_mlp(layer)
    op, hidden = heads_of(attention), mlp_of(mlp)
    size = op.inner // op.kv_inner
    alone = params(with_layers(arch, [layer])).total
    if heads and op.heads > size:
        cost = alone - params(with_layers(arch, [with_cuts(layer, range(size), ())])).total
        for first in range(0, op.heads, size):
            members = tuple(range(first, first + size))
            yield _Piece(number, 0, members, op.heads, sum(use.heads[m] for m in members), cost)
    if units and hidden.mlp_dim > multiple:
        cost = alone - params(with_layers(arch, [with_cuts(layer, (), range(multiple))])).total
        order = sorted(range(hidden.mlp_dim), key=lambda unit: use.units[unit])
        for first in range(0, hidden.mlp_dim - multiple + 1, multiple):
            members = tuple(order[first : first + multiple])
            yield _Piece(number, 1, members, hidden.mlp_dim, sum(use.units[m] for m in members), cost)
