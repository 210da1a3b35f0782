"""What a task record does: the models that fit, batches, loss and metrics, chosen by the record's type (see `task`)."""

from manyheads.spec.images import Augment, Images, Rand
from manyheads.spec.points import NearestNeighbor, Regression
from manyheads.spec.serialise import to_dict
from manyheads.spec.task import Task
from manyheads.spec.task_kinds import TASKS
from manyheads.spec.task_kinds import task_from_dict as from_dict
from manyheads.spec.text import Glue, LanguageModel, MaskedLanguage

from . import glue, images, long_range, measured_attention, measurements, points, text  # noqa: F401  # each registers its tasks
from .measurements import measure
from .task import Work, check, fit, open_task, remark
from .task_data import check_data, data_digest, held_bytes, sample_count

__all__ = [
    "TASKS",
    "Augment",
    "Glue",
    "Images",
    "LanguageModel",
    "MaskedLanguage",
    "NearestNeighbor",
    "Rand",
    "Regression",
    "Task",
    "Work",
    "check",
    "check_data",
    "data_digest",
    "fit",
    "from_dict",
    "held_bytes",
    "measure",
    "open_task",
    "remark",
    "sample_count",
    "to_dict",
]
