"""The run folder, read and written: the one contract between training and everything after it. Standard library only.

spec.json       architecture, task, recipe, seed; never changed; its hash is the run's id
status.json     where the run stands, replaced in one step
metrics.jsonl   spectra.jsonl   timings.jsonl   (times apart, so that the others can be equal to the bit)
checkpoint/     model/
result.json     written last: its presence means done
lock            held while a process writes
"""

from manyheads.spec.lock import Busy
from manyheads.spec.run import RunSpec

from .find import Found, find
from .lines import Lines
from .run import Run

__all__ = ["Busy", "Found", "Lines", "Run", "RunSpec", "find"]
