"""Every experiment by name.

Making all of them takes a second, so that each is made when it is asked for: its module has it as a constant, called
like the experiment in capitals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from manyheads.spec.errors import UserError, nearest
from manyheads.spec.experiment import Experiment

FIRST: dict[str, str] = {  # of the first paper (2505.20802), what it leaves out, and constructions of the second
    "theorem": "measured_theory",
    "fig1": "vision_tables",
    "fig2": "vision_designs",
    "fig3": "vision_designs",
    "fig4": "vision_designs",
    "fig5": "vision_designs",
    "table4": "vision_tables",
    "table5": "vision_tables",
    "table1": "crammed_bert",
    "table1_glue": "crammed_bert",
    "table2": "gpt2_stories",
    "table3": "long_range",
    "fig8": "long_range",
    "fig9": "long_range",
    "controls": "vision_controls",
    "lr": "vision_controls",
    "policy": "vision_controls",
    "correlation": "vision_designs",
    "latency": "measured_cost",
    "memory": "measured_cost",
    "constructions": "measured_theory",
}
RANK: dict[str, str] = {  # of the second paper, *Quality over Quantity in Attention Layers* (2407.16153)
    "rank_fig1": "rank_heads",
    "rank_n": "rank_depth",
    "rank_positions": "rank_depth",
    "rank_dim": "rank_heads",
    "rank_replay": "rank_depth",
    "rank_axes": "rank_heads",
    "rank_regression": "rank_heads",
    "rank_rate": "rank_depth",
}


CAMPAIGN: dict[str, str] = {  # designed so that what the papers leave open can be decided on one GPU
    "gpt_rates": "gpt_controls",
    "gpt_controls": "gpt_controls",
    "gpt_time": "gpt_controls",
    "vision_dose": "vision_regime",
    "vision_arms": "vision_regime",
    "rank_growth": "rank_written",
    "rank_vote": "rank_written",
}


class Catalogue(Mapping[str, Experiment]):
    """Experiments by name, in the order of `modules`, which has the module of each."""

    def __init__(self, modules: Mapping[str, str]) -> None:
        self._modules = modules

    def __getitem__(self, name: str) -> Experiment:
        module = import_module(f"{__package__}.{self._modules[name]}")
        experiment: Experiment = vars(module)[name.upper()]
        return experiment

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)

    def __contains__(self, name: object) -> bool:
        return name in self._modules


EXPERIMENTS: Mapping[str, Experiment] = Catalogue({**FIRST, "demo": "demo", **RANK, **CAMPAIGN})


def get(name: str) -> Experiment:
    """The experiment called `name`."""
    if name not in EXPERIMENTS:
        raise UserError(
            f"no experiment is called {name!r}{nearest(name, EXPERIMENTS)}; there are {', '.join(EXPERIMENTS)}"
        )
    return EXPERIMENTS[name]
