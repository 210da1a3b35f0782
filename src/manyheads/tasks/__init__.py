"""What a model is trained to do: batches, loss and metrics, behind one protocol (`task`)."""

from manyheads.data.augment import Augment, Rand

from .images import Images
from .record import TASKS, from_dict, to_dict
from .task import Task, Work

__all__ = ["TASKS", "Augment", "Images", "Rand", "Task", "Work", "from_dict", "to_dict"]
