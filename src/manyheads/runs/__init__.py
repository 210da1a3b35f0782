"""The run folder and the pack of finished runs, read and written. Training writes folders; sweeps and reports know a run
by its folder or by its line in a pack, and by nothing else. Standard library only.

spec.json       architecture, task, recipe, seed; never changed; its hash is the run's id
status.json     where the run stands, replaced in one step
metrics.jsonl   spectra.jsonl   timings.jsonl   (times apart, so that the others can be equal to the bit)
checkpoint/     model/
result.json     written last: its presence means done
lock            locked while a process writes
"""

from manyheads.spec.lock import Busy
from manyheads.spec.run import RunSpec

from .folder import RunFolder, identity
from .json_lines import JsonLines
from .listing import find
from .run import Run

__all__ = ["Busy", "JsonLines", "Run", "RunFolder", "RunSpec", "find", "identity"]
