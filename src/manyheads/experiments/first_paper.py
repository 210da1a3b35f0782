"""The experiments of the first paper, *Leaner Transformers: More Heads, Less Depth* (2505.20802), and those nobody
ran; and what the second paper writes down and does not train.

Each is named with the file and the record that it is: making all of them takes a second, so that one is made when it is
asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from manyheads.spec.experiment import Experiment

FIRST: dict[str, tuple[str, str]] = {
    "theorem": ("theorem", "THEOREM"),
    "fig1": ("tables45", "FIG1"),
    "fig2": ("sweep41", "FIG2"),
    "fig3": ("sweep41", "FIG3"),
    "fig4": ("sweep41", "FIG4"),
    "fig5": ("sweep41", "FIG5"),
    "table4": ("tables45", "TABLE4"),
    "table5": ("tables45", "TABLE5"),
    "table1": ("table1", "TABLE1"),
    "table1_glue": ("table1_glue", "TABLE1_GLUE"),
    "table2": ("table2", "TABLE2"),
    "table3": ("table3", "TABLE3"),
    "fig8": ("table3", "FIG8"),
    "fig9": ("table3", "FIG9"),
    "controls": ("controls", "CONTROLS"),
    "lr": ("lr", "LR"),
    "policy": ("policy", "POLICY"),
    "correlation": ("correlation", "CORRELATION"),
    "latency": ("latency", "LATENCY"),
    "memory": ("memory", "MEMORY"),
    "constructions": ("constructions", "CONSTRUCTIONS"),
}


class Catalogue(Mapping[str, Experiment]):
    """Experiments by name, in their order: first those that are made when they are asked for, then those at hand."""

    def __init__(self, at_hand: Mapping[str, Experiment], homes: Mapping[str, tuple[str, str]]) -> None:
        self._made, self._homes = dict(at_hand), homes
        self._names = [*(name for name in homes if name not in at_hand), *at_hand]

    def __getitem__(self, name: str) -> Experiment:
        if name not in self._made:
            module, record = self._homes[name]
            self._made[name] = getattr(import_module(f"{__package__}.{module}"), record)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names
