"""A lean model from a trained one, by name: its weights, calibration data, the search, and the folder that results.

made = transplant("hf:FOLDER", depth=22, data="text.txt")
made.save("lean")                  a folder like that of `convert`, with transplant.json beside it
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn

from manyheads.arch.count import kv_bytes, params
from manyheads.arch.layer_edits import folded, layer_list, with_layers
from manyheads.models import store
from manyheads.models.build import allocate, build
from manyheads.models.stream import write_tensors
from manyheads.spec import files as json_files
from manyheads.spec import serialise as record
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Lm
from manyheads.spec.transplant import Pad, Transplant, TransplantStep
from manyheads.transplant import Candidate, apply, least_used, measure_use, search

from .calibration import Calibration, calibration
from .door import Trained, module, trained, write_sides, write_source
from .new_folder import new_folder

How = Literal["fold", "drop", "auto"]
FILE = "transplant.json"
TURNS = 5  # forward passes whose median time is stated


@dataclass(frozen=True)
class Measured:
    """One model on the way: what was done last, its layers and parameters, its loss on the calibration data, and how far
    the last change turned the residual stream, in radians. None is what was not measured."""

    what: str
    layers: int
    params: int
    loss: float | None = None
    turn: float | None = None
    milliseconds: float | None = None
    cache: int | None = None


@dataclass(frozen=True)
class Transplanted:
    """The lean model: its record and weights, how it was made, and what was measured on the way, the source first."""

    arch: Arch
    weights: dict[str, Tensor]
    made: Transplant
    rows: tuple[Measured, ...]
    data: str
    source: Trained

    def model(self) -> nn.Module:
        """The module, in float32 and in evaluation mode."""
        return _module(self.arch, self.weights)

    def save(self, out: Path | str) -> Path:
        """Write the model as a new folder: record, weights, how it was made, the source's tokenizer, and in
        source.json where the weights come from. The folder appears when it is whole."""
        out = Path(out)
        with new_folder(out) as place:
            write_sides(self.source, place)
            write_source(self.source, place)
            record.save(self.arch, place / store.RECORD)
            json_files.replace(place / FILE, json_files.dump(self.made.to_dict()))
            layout = {name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in self.weights.items()}
            write_tensors(place / store.WEIGHTS, layout, lambda name: self.weights[name])
        return out


def transplant(
    name: str,
    *,
    depth: int | None = None,
    how: How = "auto",
    params: int | float | str | None = None,
    data: Path | str | None = None,
    amount: int = 2048,
    by_stream: bool = False,
    beam: int = 1,
    shortlist: int | None = 8,
    uniform: bool = False,
    again: Transplant | None = None,
    told: Callable[[Measured], None] = lambda _: None,
) -> Transplanted:
    """A lean model made from the trained model `name`: folded or dropped to `depth` layers, then cut to `params`
    parameters (a number, or a share such as "0.8x"), then, if `uniform`, padded so that all layers are alike.

    `data` is a text file or a folder of images, of which `amount` tokens or images are used; see `calibration`. Layers
    are chosen by the loss, of the `shortlist` candidates that turn the residual stream least; `by_stream` leaves it at
    that. `again` does what an earlier transplant of the same weights did, and needs no data. `told` hears of every model
    on the way."""
    source = trained(name)
    assert source.files is not None
    arch, sha256, folder = source.arch, source.report.sha256, source.files.folder
    if again is None and depth is None and params is None:
        raise UserError("nothing is to be done: state a depth, a number of parameters, or the steps of an earlier one")
    if again is not None:
        _check_again(again, arch, sha256, name)
    elif data is None:
        raise UserError(
            "what a step costs is measured on data: write --data FILE, a text, or a folder of images (in Python data=...)"
        )
    model = module(source)
    weights = {key: tensor.detach() for key, tensor in model.state_dict().items()}
    chosen = (
        None if data is None else calibration(arch, folder, source.files.gguf, Path(data), amount, scored=not by_stream)
    )
    way = _Way(chosen, told)
    way.see("as it is", model)
    if again is not None:
        steps: tuple[TransplantStep, ...] = again.steps
    else:
        assert chosen is not None
        steps = _searched(model, chosen, depth, how, beam, shortlist, way)
        steps += _cut(arch, weights, steps, params, chosen, way)
        steps += (Pad(),) if uniform else ()
    lean, new = apply(arch, weights, steps)
    way.see(_words(steps), _module(lean, new))
    return Transplanted(
        lean, new, Transplant(arch, sha256, steps), tuple(way.rows), chosen.words if chosen else "", source
    )


def read_transplant(path: Path) -> Transplant:
    """How an earlier transplant was made: its transplant.json, or the folder that holds it."""
    return Transplant.from_dict(record.read_json(path / FILE if path.is_dir() else path))


def _check_again(again: Transplant, arch: Arch, sha256: str, name: str) -> None:
    if again.source != arch:
        raise UserError(f"{name} is not the model that the steps were made for: its record differs")
    if again.sha256 != sha256:
        raise UserError(
            f"the weights of {name} have sha256 {sha256[:12]}, and the steps were made for {again.sha256[:12]}; search "
            "anew, without --again"
        )


class _Way:
    """What is measured of the models on the way."""

    def __init__(self, data: Calibration | None, told: Callable[[Measured], None]) -> None:
        self.data, self.told, self.rows = data, told, list[Measured]()

    def add(self, row: Measured) -> None:
        self.rows.append(row)
        self.told(row)

    @torch.no_grad()
    def see(self, what: str, model: nn.Module) -> None:
        """Measure a whole model: loss, time of a forward, and the cache of one sequence."""
        arch = model.arch
        assert isinstance(arch, Arch)
        cache = int(kv_bytes(arch) * arch.stages[0].tokens) if isinstance(arch.head, Lm) else None
        row = Measured(what, len(layer_list(arch)), params(arch).total, cache=cache)
        if self.data is not None:
            row = replace(row, loss=_mean_loss(model, self.data), milliseconds=_milliseconds(model, self.data))
        self.add(row)


def _mean_loss(model: nn.Module, data: Calibration) -> float | None:
    if data.loss is None:
        return None
    return statistics.fmean(data.loss(model, batch) for batch in data.batches)


def _milliseconds(model: nn.Module, data: Calibration) -> float:
    """The median time of a forward over one example, after one that does not count."""
    one = (data.batches[0][0][:1],)
    times = []
    for _ in range(TURNS + 1):
        before = time.perf_counter()
        data.call(model, one)
        times.append(1000 * (time.perf_counter() - before))
    return statistics.median(times[1:])


def _searched(
    model: nn.Module, data: Calibration, depth: int | None, how: How, beam: int, shortlist: int | None, way: _Way
) -> tuple[TransplantStep, ...]:
    if depth is None:
        return ()

    def told(move: Candidate) -> None:
        what = f"{'folded' if move.kind == 'fold' else 'dropped'} {', '.join(str(number) for number in move.layers)}"
        row = Measured(what, move.depth, _params_of(_arch(model), move))
        way.add(replace(row, loss=move.loss) if data.loss is not None else replace(row, turn=move.loss))

    trail = search(
        model, data.batches, data.loss, depth=depth, how=how, beam=beam, shortlist=shortlist, told=told, call=data.call
    )
    return trail.steps


def _arch(model: nn.Module) -> Arch:
    arch = model.arch
    assert isinstance(arch, Arch)
    return arch


def _params_of(arch: Arch, move: Candidate) -> int:
    """The parameters of the model that an arrangement of layers stands for."""
    layers = layer_list(arch)
    new = [
        layers[group[0]] if len(group) == 1 else folded([layers[number] for number in group]) for group in move.groups
    ]
    return int(params(with_layers(arch, new)).total)


def _cut(
    arch: Arch,
    weights: dict[str, Tensor],
    steps: Sequence[TransplantStep],
    wanted: int | float | str | None,
    data: Calibration,
    way: _Way,
) -> tuple[TransplantStep, ...]:
    """The heads and units to cut so that the model that `steps` make keeps within the parameters that are wanted."""
    if wanted is None:
        return ()
    from manyheads.planner.constraints import parse

    amount, relative = parse("params", wanted)
    most = int(amount * params(arch).total) if relative else int(amount)
    lean, new = apply(arch, weights, steps)
    if params(lean).total <= most:
        return ()
    model = _module(lean, new)
    cuts = least_used(lean, measure_use(model, data.batches, data.call), most)
    row_arch, row_weights = apply(lean, new, cuts)
    way.see("cut", _module(row_arch, row_weights))
    return cuts


def _module(arch: Arch, weights: dict[str, Tensor]) -> nn.Module:
    model = build(arch, device="meta")
    allocate(model, "cpu")
    store.fill(model, weights, "the transplant")
    return model.eval()


def _words(steps: Sequence[TransplantStep]) -> str:
    return ", ".join(dict.fromkeys(type(step).__name__.lower() for step in steps)) or "unchanged"
