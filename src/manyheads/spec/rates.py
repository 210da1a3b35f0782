"""How much noise training adds: dropout of units, of attention weights, of whole residual branches."""

from __future__ import annotations

from dataclasses import dataclass

from manyheads.spec.field_checks import check_types

from .errors import UserError


@dataclass(frozen=True, slots=True)
class Rates:
    """Dropout rates of a model under training. They belong to a recipe, not to an architecture."""

    dropout: float = 0.0  # after output projections and inside MLPs
    attention: float = 0.0  # on attention weights
    path: float = 0.0  # on residual branches, the rate of the deepest layer

    def __post_init__(self) -> None:
        check_types(self, "recipe.rates")
        for name in ("dropout", "attention", "path"):
            rate = getattr(self, name)
            if not 0.0 <= rate < 1.0:
                raise UserError(f"recipe.rates.{name} is {rate}; write a number from 0 up to, not including, 1")
