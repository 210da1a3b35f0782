"""Every kind of task that a file may name, those of your own included."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from . import images, long_range, measurements, points, text
from .errors import UserError
from .serialise import tagged
from .task import Task

R = TypeVar("R", bound=type)

# fmt: off
TASKS: dict[str, type[Task]] = {
    kind.__name__: kind for kind in (
        images.Images, points.NearestNeighbor, points.Regression,
        text.LanguageModel, text.MaskedLanguage, text.Glue,
        long_range.ListOps, long_range.ByteText, long_range.Retrieval, long_range.PixelRow, long_range.Pathfinder,
        measurements.HeadsKappa, measurements.Speed, measurements.Footprint, measurements.WrittenDown,
    )
}
# fmt: on


def register(kind: R) -> R:
    """A decorator for the record of a task of your own: files may then name it."""
    TASKS[kind.__name__] = kind
    return kind


def task_from_dict(data: Any) -> Task:
    """The task in a JSON object that says what it `is`."""
    if not isinstance(data, dict) or not isinstance(data.get("is"), str):
        shown = json.dumps(data, default=str)[:80]
        raise UserError(f'a task is an object that says what it "is", such as {{"is": "Images"}}; this is {shown}')
    task: Task = tagged(TASKS, data, "task", "no task")
    return task
