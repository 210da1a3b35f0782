"""Which layers to fold or drop: every candidate is tried on the model itself, by the loss that it costs.

A candidate is an arrangement: groups of layers, each computed in its parallel form, dropped layers in none. Nothing is
folded while searching; the model runs with its blocks arranged, from the first group that changed, since the residual
stream before it is known. `turned` needs no loss: it says how far a candidate turns the stream where it stands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from manyheads.arch.layer_edits import folded, layer_list
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Attention, Softmax
from manyheads.spec.transplant import Drop, Fold, TransplantStep

from .use import Call, evaluating, forward

How = Literal["fold", "drop", "auto"]
Loss = Callable[[nn.Module, Any], float]
Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Candidate:
    """One arrangement: the `kind` of change that led to it, the source's `layers` that were changed, its groups, and its
    loss on the calibration batches (without a loss: how far the last change turns the residual stream, in radians)."""

    kind: Literal["start", "fold", "drop"]
    layers: tuple[int, ...]
    groups: Groups
    loss: float

    @property
    def depth(self) -> int:
        """Layers of the model that results."""
        return len(self.groups)


@dataclass(frozen=True)
class Trail:
    """The way from the source to the arrangement that was chosen, one candidate for each layer less."""

    source_depth: int
    moves: tuple[Candidate, ...]

    @property
    def steps(self) -> tuple[TransplantStep, ...]:
        """The arrangement as steps of a transplant: first what is dropped, then what is folded."""
        groups = self.moves[-1].groups
        kept = [number for group in groups for number in group]
        dropped = tuple(number for number in range(self.source_depth) if number not in kept)
        at = {number: place for place, number in enumerate(kept)}
        merged = tuple(tuple(at[number] for number in group) for group in groups if len(group) > 1)
        return ((Drop(dropped),) if dropped else ()) + ((Fold(merged),) if merged else ())


@torch.no_grad()
def search(
    model: nn.Module,
    batches: Sequence[Any],
    loss: Loss | None,
    *,
    depth: int,
    how: How = "auto",
    beam: int = 1,
    shortlist: int | None = None,
    told: Callable[[Candidate], None] | None = None,
    call: Call = forward,
) -> Trail:
    """The way to a model of `depth` layers that costs the least loss, one layer at a time: `beam` arrangements are kept,
    and each is changed in every way that `how` allows. `loss` gives the loss of the model on a batch. With `shortlist`
    only the candidates that turn the residual stream least are tried. Without a loss, that decides alone. `told` hears
    of every layer less. `call` runs the model on a batch, where `loss` is None."""
    records = layer_list(_arch(model))
    if not 1 <= depth <= len(records):
        raise UserError(f"depth {depth}: the model has {len(records)} layers; write a number from 1 to {len(records)}")
    if any(
        isinstance(branch.op, Attention) and not isinstance(branch.op.mix, Softmax) for one in records for branch in one
    ):
        raise UserError("the search runs softmax attention alone; drop layers of this model by their numbers")
    if not batches:
        raise UserError("no calibration batch was given; give at least one")
    if how != "drop":
        _need_foldable(model, records)

    def only_run(net: nn.Module, batch: Any) -> float:
        call(net, batch)
        return 0.0

    arranged = Arranged(model, batches, loss or only_run)
    with evaluating(model):
        start = Candidate("start", (), tuple((number,) for number in range(len(records))), 0.0)
        states = [arranged.enter(start, start.groups)]
        best: list[tuple[Candidate, ...]] = [(states[0].candidate,)]
        while best[0][-1].depth > depth:
            found: dict[Groups, tuple[Candidate, ...]] = {}
            for trail, state in zip(best, states, strict=True):
                for change in _changes(state, how, model, records, shortlist, scored=loss is not None):
                    value = arranged.loss(state, change) if loss is not None else change.turn
                    candidate = Candidate(change.kind, change.layers, change.groups, value)
                    if change.groups not in found or value < found[change.groups][-1].loss:
                        found[change.groups] = (*trail, candidate)
            if not found:
                raise UserError(f"no layers are left that can be changed, at {best[0][-1].depth} layers")
            best = sorted(found.values(), key=lambda trail: trail[-1].loss)[: max(1, beam)]
            states = [arranged.enter(trail[-1], trail[-1].groups) for trail in best]
            if told is not None:
                told(best[0][-1])
        return Trail(len(records), best[0])


@dataclass(frozen=True)
class LayerChange:
    """One way to have a layer less: at group `at`, with how far it turns the residual stream there (radians)."""

    kind: Literal["fold", "drop"]
    at: int
    layers: tuple[int, ...]
    groups: Groups
    turn: float


@dataclass
class State:
    """An arrangement that has been run: the stream that entered each group, batch by batch, and what else the blocks
    were given."""

    candidate: Candidate
    groups: Groups
    entered: list[list[Tensor]]  # batch, group
    left: list[Tensor]  # batch: after the last group
    others: list[list[tuple[Any, ...]]]  # batch, group: the further arguments of the block


class Arranged:
    """A model that runs with its blocks arranged in groups, on given batches."""

    def __init__(self, model: nn.Module, batches: Sequence[Any], loss: Loss) -> None:
        self.model, self.batches, self.of = model, batches, loss
        self.blocks: Any = model.blocks

    def enter(self, candidate: Candidate, groups: Groups) -> State:
        """Run an arrangement whole, and keep what enters each group."""
        entered, others, left, losses = [], [], [], []
        for batch in self.batches:
            with self._in_place(groups, 0, None) as spies:
                losses.append(self.of(self.model, batch))
            entered.append([spy.args[0] for spy in spies])
            others.append([spy.args[1:] for spy in spies])
            left.append(spies[-1].out)
        value = sum(losses) / len(losses) if candidate.kind == "start" else candidate.loss
        chosen = Candidate(candidate.kind, candidate.layers, candidate.groups, value)
        return State(chosen, groups, entered, left, others)

    def loss(self, state: State, change: LayerChange) -> float:
        """The mean loss of the arrangement that a change makes, run from the group that changed."""
        total = 0.0
        for number, batch in enumerate(self.batches):
            with self._in_place(change.groups, change.at, state.entered[number][change.at]):
                total += self.of(self.model, batch)
        return total / len(self.batches)

    @contextmanager
    def _in_place(self, groups: Groups, start: int, stream: Tensor | None) -> Iterator[list[Spy]]:
        """The model with `groups` in the place of its blocks; those before group `start` are left out, and `stream` goes
        on in their place."""
        places: list[nn.Module] = [Skip() for _ in self.blocks]
        spies = []
        for number, group in enumerate(groups):
            if number >= start:
                spy = Spy(parallel([self.blocks[layer] for layer in group]))
                spies.append(spy)
                places[group[0]] = spy
        if stream is not None:
            places[0] = Held(stream, places[0])
        self.model.blocks = nn.ModuleList(places)
        try:
            yield spies
        finally:
            self.model.blocks = self.blocks


class Skip(nn.Module):
    """Hands the stream on."""

    def forward(self, x: Tensor, *_: Any) -> Tensor:
        return x


class Held(nn.Module):
    """A stream that is already known, in place of what enters; then the module that stands here."""

    def __init__(self, stream: Tensor, then: nn.Module) -> None:
        super().__init__()
        self.stream, self.then = stream, then

    def forward(self, x: Tensor, *args: Any) -> Tensor:
        out: Tensor = self.then(self.stream, *args)
        return out


class Spy(nn.Module):
    """Remembers what its group was given and what it gave."""

    args: tuple[Any, ...]
    out: Tensor

    def __init__(self, group: nn.Module) -> None:
        super().__init__()
        self.group = group

    def forward(self, x: Tensor, *args: Any) -> Tensor:
        self.args = (x, *args)
        self.out = self.group(x, *args)
        return self.out


class Parallel(nn.Module):
    """Several pre-norm blocks side by side: all attentions, then all MLPs. What `fold` makes equals this."""

    def __init__(self, blocks: Sequence[Any]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x: Tensor, *args: Any) -> Tensor:
        members: Any = self.blocks
        x = x + sum(_delta(block.attention, x, *args) for block in members)
        return x + sum(_delta(block.mlp, x) for block in members)


def _delta(branch: Any, x: Tensor, *args: Any) -> Tensor:
    """What a pre-norm branch adds."""
    added: Tensor = branch.scaled(branch.op(branch.norm(x), *args))
    return added


def parallel(blocks: Sequence[Any]) -> nn.Module:
    """The module that computes a group of blocks."""
    block: nn.Module = blocks[0] if len(blocks) == 1 else Parallel(blocks)
    return block


def _changes(
    state: State, how: How, model: nn.Module, records: Sequence[Any], shortlist: int | None, *, scored: bool
) -> list[LayerChange]:
    """Every way to have a layer less, those that turn the stream least first."""
    groups, out = state.groups, []
    cheap = shortlist is not None or not scored
    blocks: Any = model.blocks
    for at, group in enumerate(groups):
        if how in ("drop", "auto") and len(groups) > 1:
            new = (*groups[:at], *groups[at + 1 :])
            turn = _turned(state, at, at + 1, None) if cheap else 0.0
            out.append(LayerChange("drop", at, group, new, turn))
        if how in ("fold", "auto") and at + 1 < len(groups):
            both = group + groups[at + 1]
            if _folds(blocks, records, both):
                new = (*groups[:at], both, *groups[at + 2 :])
                module = parallel([blocks[layer] for layer in both])
                turn = _turned(state, at, at + 2, module) if cheap else 0.0
                out.append(LayerChange("fold", at, both, new, turn))
    out.sort(key=lambda change: change.turn)
    return out if shortlist is None else out[:shortlist]


def _turned(state: State, at: int, end: int, module: nn.Module | None) -> float:
    """The mean angle between the stream behind groups `at` to `end` as it is and as `module` would make it; None: as it
    was before them."""
    angles = []
    for number, entered in enumerate(state.entered):
        before = entered[at]
        as_is = entered[end] if end < len(entered) else state.left[number]
        new = before if module is None else module(before, *state.others[number][at])
        cosine = torch.nn.functional.cosine_similarity(as_is.float(), new.float(), dim=-1)
        angles.append(cosine.clamp(-1, 1).acos().mean())
    return float(torch.stack(angles).mean())


def _folds(blocks: Any, records: Sequence[Any], layers: Sequence[int]) -> bool:
    try:
        folded([records[layer] for layer in layers])
    except UserError:
        return False
    return _same_norms([blocks[layer] for layer in layers])


def _same_norms(blocks: Sequence[Any]) -> bool:
    """Whether the norms of queries and keys are equal in all blocks."""
    states = [(block.attention.op.q_norm.state_dict(), block.attention.op.k_norm.state_dict()) for block in blocks]
    return all(
        torch.equal(state[part][name], states[0][part][name])
        for state in states[1:]
        for part in (0, 1)
        for name in states[0][part]
    )


def _need_foldable(model: nn.Module, records: Sequence[Any]) -> None:
    """Refuse to fold where no two neighbours fold, with the reason that the first pair has."""
    blocks: Any = model.blocks
    pairs = [(number, number + 1) for number in range(len(records) - 1)]
    if not pairs or any(_folds(blocks, records, pair) for pair in pairs):
        return
    folded([records[0], records[1]])
    raise UserError(
        "the norms of queries and keys have other gains in every layer, so that none fold; drop layers instead"
    )


def _arch(model: nn.Module) -> Arch:
    arch = model.arch
    assert isinstance(arch, Arch)
    return arch
