"""`Task`: what a model is trained to do, or what is measured of it, as a record. The kinds stand in modules of their own.

    images.Images                                   points.NearestNeighbor, Regression
    text.LanguageModel, MaskedLanguage, Glue        long_range.ListOps, ByteText, Retrieval, PixelRow, Pathfinder
    measurements.HeadsKappa, Speed, Footprint, WrittenDown

The room `tasks` carries them out: batches, loss and scores, chosen by the record's type.
"""

from __future__ import annotations

from dataclasses import dataclass

from manyheads.spec.field_checks import check_types

SCRATCH = "scratch"


@dataclass(frozen=True)
class Task:
    """A task. Fields of a wrong type are refused by name."""

    def __post_init__(self) -> None:
        check_types(self, type(self).__name__)

    @property
    def starts_from(self) -> str | None:
        """The weights that a run of this task begins with: None where the task fine-tunes nothing, else the sha256 of
        the weights, `scratch`, or "" where the task does not say yet."""
        return None

    @property
    def repeats(self) -> int:
        """Batches after which the training data comes again in the same order; 0 where it does not."""
        return 0
