"""The weights of a timm or transformers module as ours: the map of names that fits, and what it leaves out.

The maps are those of `models/twins`. Where a family has several for one library, the one is taken whose names are the
module's."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module

import torch
from torch import Tensor, nn

from manyheads.models.build import build
from manyheads.models.stream import Layout
from manyheads.models.twins import TWINS, hf_types
from manyheads.models.twins.tensors import TwinTensor
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError

LIBRARIES = {"hf": "transformers", "timm": "timm"}
# tensors in older files that the model computes itself
BUFFER = re.compile(r"(^|\.)(masked_bias|inv_freq|position_ids|token_type_ids|num_batches_tracked)$")
CAUSAL = re.compile(r"(^|\.)(attn|attention)\.bias$")  # such a tensor of four dimensions is a causal mask
# what pretraining left beside the model, and what the model's own task does not read
POOLER = re.compile(r"(^|\.)(pooler|seq_relationship)\.")
Map = Callable[[Arch], list[TwinTensor]]


@dataclass
class Mapped:
    """Our tensors as conversions of a module's, with their types and shapes in `layout`. `tied` are names that show
    another tensor once more, with that tensor's name; `buffers` and `poolers` are left out; `missing` are ours that the
    weights do not hold."""

    arch: Arch
    entries: dict[str, TwinTensor]
    state: dict[str, Tensor]
    layout: Layout
    tied: dict[str, str]
    buffers: list[str]
    poolers: list[str]
    missing: list[str]

    def tensor(self, name: str) -> Tensor:
        """Our tensor of that name. The twin's is let go, unless another one of ours is made of it, too."""
        entry = self.entries[name]
        value = entry.how.into([self.state[their] for their in entry.theirs]).to(self.layout[name][0])
        for their in entry.theirs:
            self.uses[their] -= 1
            if not self.uses[their]:
                del self.state[their]
        return value

    def __post_init__(self) -> None:
        self.uses = Counter(their for entry in self.entries.values() for their in entry.theirs)


def mapped(
    arch: Arch, module: nn.Module, library: str, missing: frozenset[str] = frozenset(), dtype: torch.dtype | None = None
) -> Mapped:
    """The map of `module`, a model of `library`, to a model of `arch`. What has no place on the other side is refused by
    name. `missing` are tensors of the module that no weights were loaded into; `dtype` is the type of our tensors, if it is
    another one."""
    state = {name: tensor.detach() for name, tensor in module.state_dict().items()}
    own: dict[str, Tensor] = dict(build(arch, device="meta").state_dict())
    same = _ours(module, own, state)
    entries = {entry.ours: entry for entry in same or fitting(arch, library, state, set(own), _kind(module))}
    names = {their for entry in entries.values() for their in entry.theirs}
    parameters = {name for name, _ in module.named_parameters(remove_duplicate=False)}
    tied, buffers, poolers = _extra(arch, state, names, parameters, library)
    _complete(arch, entries, own, state, library)
    lacking = [name for name in own if missing & set(entries[name].theirs)]
    kinds = {name: _dtype(entries[name], state, dtype) for name in own}
    layout = {name: (kinds[name], tuple(own[name].shape)) for name in own}
    return Mapped(arch, entries, state, layout, tied, buffers, poolers, lacking)


def _kind(module: nn.Module) -> str:
    """The model type of a model of transformers."""
    return str(getattr(getattr(module, "config", None), "model_type", ""))


def _dtype(entry: TwinTensor, state: dict[str, Tensor], wanted: torch.dtype | None) -> torch.dtype:
    """The type of one of our tensors. Whole numbers stay what they are."""
    there = state[entry.theirs[0]].dtype
    return wanted if wanted is not None and there.is_floating_point else there


def _ours(module: nn.Module, own: dict[str, Tensor], state: dict[str, Tensor]) -> list[TwinTensor]:
    """The map of a model of ours that another library holds; [] for any other."""
    if not isinstance(getattr(module, "arch", None) or getattr(getattr(module, "model", None), "arch", None), Arch):
        return []
    front = "" if next(iter(own)) in state else "model."
    return [TwinTensor(name, (front + name,)) for name in own]


def computed(name: str, dimensions: int) -> bool:
    """Whether a tensor of a file is one that the model computes itself: positions, a causal mask, a counter."""
    return bool(BUFFER.search(name)) or (dimensions == 4 and bool(CAUSAL.search(name)))


def maps(arch: Arch, library: str, kind: str = "") -> list[Map]:
    """The map of the model type `kind` of transformers; else those of the family to models of `library`."""
    if library == "hf" and kind in hf_types.MAPS:
        return [hf_types.MAPS[kind].entries]
    found = []
    for place in TWINS[arch.family]:
        file, _, function = place.partition(".")
        if file.startswith(library):
            found.append(getattr(import_module(f"manyheads.models.twins.{file}"), function))
    return found


def fitting(arch: Arch, library: str, state: dict[str, Tensor], own: set[str], kind: str = "") -> list[TwinTensor]:
    """The map whose names are those of the module, and of our model."""
    best: list[TwinTensor] | None = None
    least = 0
    for function in maps(arch, library, kind):
        try:
            entries = function(arch)
        except AssertionError:  # a map of another kind of head
            continue
        entries = _with_counters(_with_prefix(entries, state), own)
        theirs = {their for entry in entries for their in entry.theirs}
        faults = 2 * len(theirs - state.keys()) + 2 * len(own ^ {entry.ours for entry in entries})
        faults += len(state.keys() - theirs)
        if best is None or faults < least:
            best, least = entries, faults
    if best is None:
        raise UserError(
            f"manyheads has no map of weights between {LIBRARIES[library]} and a {arch.family} model with a "
            f"{type(arch.head).__name__} head; its architecture can be planned and trained, its weights cannot be read"
        )
    return best


def _with_prefix(entries: list[TwinTensor], state: dict[str, Tensor]) -> list[TwinTensor]:
    """The map for a base model, whose names lack the first word that they have inside a model with a head."""
    names = [their for entry in entries for their in entry.theirs]
    fronts = {name.partition(".")[0] for name in names}
    present = {name.partition(".")[0] for name in state}
    absent = {
        front for front in fronts - present if sum(name.startswith(f"{front}.") for name in names) > len(names) // 2
    }
    if len(absent) != 1:
        return entries
    (front,) = absent
    cut = [tuple(name.removeprefix(f"{front}.") for name in entry.theirs) for entry in entries]
    return [TwinTensor(entry.ours, theirs, entry.how) for entry, theirs in zip(entries, cut, strict=True)]


def _with_counters(entries: list[TwinTensor], own: set[str]) -> list[TwinTensor]:
    """The map with the counters of batch norms, which stand beside their running means."""
    mean, counter = ".running_mean", ".num_batches_tracked"
    pairs = [(entry.ours, entry.theirs[0]) for entry in entries if entry.ours.endswith(mean)]
    names = [(ours.removesuffix(mean) + counter, theirs.removesuffix(mean) + counter) for ours, theirs in pairs]
    known = {entry.ours for entry in entries}
    return entries + [TwinTensor(ours, (theirs,)) for ours, theirs in names if ours in own - known]


def _extra(
    arch: Arch, state: dict[str, Tensor], names: set[str], parameters: set[str], library: str
) -> tuple[dict[str, str], list[str], list[str]]:
    """Tensors of the module that the map does not read: tied names, buffers and poolers. Any other is refused."""
    places = {(state[name].data_ptr(), state[name].shape): name for name in names if name in state}
    tied, buffers, poolers, others = {}, [], [], []
    for name in state.keys() - names:
        place = (state[name].data_ptr(), state[name].shape)
        if place in places:
            tied[name] = places[place]
        elif name not in parameters:
            buffers.append(name)
        elif POOLER.search(name):
            poolers.append(name)
        else:
            others.append(name)
    if others:
        count = sum(state[name].numel() for name in others)
        raise UserError(
            f"this {LIBRARIES[library]} model has {count:,} parameters that manyheads' map of a {arch.family} model does "
            f"not carry: {listed(sorted(others))}; nothing was converted"
        )
    return dict(sorted(tied.items())), sorted(buffers), sorted(poolers)


def _complete(
    arch: Arch, entries: dict[str, TwinTensor], own: dict[str, Tensor], state: dict[str, Tensor], library: str
) -> None:
    """Refuse a map that leaves a tensor of ours without a source, or gives one of another shape."""
    where = f"manyheads' map from {LIBRARIES[library]} to a {arch.family} model"
    uncarried = sorted(own.keys() - entries.keys())
    absent = sorted({their for entry in entries.values() for their in entry.theirs} - state.keys())
    if uncarried or absent:
        what = f"does not carry {listed(uncarried)}" if uncarried else f"reads {listed(absent)}, which this model lacks"
        raise UserError(f"{where} {what}; nothing was converted")
    for name, tensor in own.items():
        entry = entries[name]
        shape = entry.how.into([state[their].to("meta") for their in entry.theirs]).shape
        if shape != tensor.shape:
            raise UserError(
                f"{name} would be {tuple(shape)} by {where}, and the record says {tuple(tensor.shape)}; nothing was "
                "converted"
            )


def listed(names: Sequence[str], most: int = 3) -> str:
    """The number of tensors and the first names."""
    more = ", ..." if len(names) > most else ""
    return f"{len(names)} tensor{'s' * (len(names) != 1)} ({', '.join(names[:most])}{more})"
