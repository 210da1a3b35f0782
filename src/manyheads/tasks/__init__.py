"""What a model is trained to do: batches, loss and metrics, behind one protocol (`task`)."""

from manyheads.spec.augment import Augment, Rand

from .glue import Glue
from .images import Images
from .language import LanguageModel
from .masked import MaskedLanguage
from .nearest import NearestNeighbor
from .record import TASKS, from_dict, to_dict
from .regression import Regression
from .task import Task, Work

# fmt: off
__all__ = [
    "TASKS", "Augment", "Glue", "Images", "LanguageModel", "MaskedLanguage", "NearestNeighbor", "Rand", "Regression",
    "Task", "Work", "from_dict", "to_dict",
]
# fmt: on
