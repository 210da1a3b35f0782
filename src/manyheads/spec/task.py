"""`Task`: what a model is trained to do, or what is measured of it, as a record. Each kind has its own module.

    images.Images                                   points.NearestNeighbor, Regression
    text.LanguageModel, MaskedLanguage, Glue        long_range.ListOps, ByteText, Retrieval, PixelRow, Pathfinder
    measurements.HeadsKappa, Speed, Footprint, WrittenDown

The package `tasks` carries them out: it chooses batches, loss and scores by the record's type.
"""

from __future__ import annotations

from dataclasses import dataclass

from manyheads.spec.field_checks import check_types

SCRATCH = "scratch"


class TaskPart:
    """A record inside a task, such as how pictures are changed. In a file it says what it `is`."""


@dataclass(frozen=True)
class Task:
    """A task. Fields of a wrong type are refused by name."""

    def __post_init__(self) -> None:
        check_types(self, type(self).__name__)

    @property
    def starts_from(self) -> str | None:
        """The weights that a run of this task starts from: their sha256, `scratch` for random weights, or "" if not
        stated yet. None for a task that does not fine-tune."""
        return None

    @property
    def repeats(self) -> int:
        """Batches after which the training data comes again in the same order; 0 where it does not."""
        return 0
