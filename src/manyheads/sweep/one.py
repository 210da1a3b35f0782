"""One run, trained in a worker process from wherever a scheduler put this process: a Ray task, a Slurm job.

Only the folder's path travels there. Whoever comes second to a folder waits: the worker of a scheduler's process that
was killed is still saving, or the same run was submitted twice."""

from __future__ import annotations

import time

from manyheads.runs import Run
from manyheads.spec.errors import UserError

from .child import Child
from .job import LOOK, wait_for_others
from .local import TRIES


class One:
    """The training of one run folder. `stop` may be called from a signal handler while `train` waits."""

    def __init__(self, folder: str, device: str | None, root: str | None, threads: int) -> None:
        self.folder, self.device, self.root, self.threads = folder, device, root, threads
        self.child: Child | None = None
        self.asked = False

    def train(self) -> dict[str, str]:
        """Train the folder to its end; {"fate": done, failed or stopped, "message": why}."""
        try:
            while True:
                wait_for_others(self.folder, lambda: self.asked)
                if Run.open(self.folder).result is not None:
                    return {"fate": "done", "message": ""}
                if self.asked:
                    return {"fate": "stopped", "message": ""}
                answer = self._try()
                # a run that failed has let go of its folder: if it is held, somebody else was faster
                if answer["fate"] != "failed" or Run.open(self.folder).state != "running":
                    return answer
        except UserError as error:  # the folder was damaged meanwhile
            return {"fate": "failed", "message": str(error)}

    def stop(self) -> None:
        """Have the run saved and stopped; returns when it is. It asks the folder and not the process, for which the
        interrupted program may be waiting already."""
        self.asked = True
        if self.child is not None:
            self.child.stop()
            while Run.open(self.folder).state == "running":
                time.sleep(LOOK)

    def _try(self) -> dict[str, str]:
        """A worker process, replaced when it dies: it goes on from the last checkpoint."""
        death = ""
        for _ in range(TRIES):
            self.child = child = Child(self.threads)
            try:
                child.give(self.folder, self.device, self.root)
                while not child.answered(LOOK):
                    pass
                answer = child.answer()
                if answer is not None:
                    return answer
                death = child.death()
            except KeyboardInterrupt:  # how Ray cancels a task
                self.stop()
                raise
            finally:
                child.dismiss()
            if self.asked:
                return {"fate": "stopped", "message": ""}
        return {"fate": "failed", "message": f"its process {death} {TRIES} times; see {self.folder}/log.txt"}
