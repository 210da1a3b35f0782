"""What a Ray task and a Slurm job do alike: train one run in a worker process, wherever the scheduler put them.

Only the path of the run folder travels there. Whoever comes to a folder that is in use waits: the worker of a
scheduler's process that was killed may still be saving, or the same run was submitted twice."""

from __future__ import annotations

import time

from manyheads.runs import Run
from manyheads.spec.errors import UserError

from .jobs import LOOK, wait_for_others
from .worker import Deaths, Worker


class RemoteRun:
    """The training of one run folder. `stop` may be called from a signal handler while `train` waits."""

    def __init__(
        self, folder: str, device: str | None, root: str | None, threads: int, on_device: int | None = None
    ) -> None:
        self.folder, self.device, self.root, self.threads = folder, device, root, threads
        self.on_device = on_device
        self.worker: Worker | None = None
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
                if answer["fate"] != "busy":
                    return answer
        except UserError as error:  # the folder was damaged meanwhile
            return {"fate": "failed", "message": str(error)}

    def stop(self) -> None:
        """Have the run save and stop; returns when it has. It looks at the folder and not at the process, for which the
        interrupted code may be waiting already."""
        self.asked = True
        if self.worker is not None:
            self.worker.stop()
            while Run.open(self.folder).state == "running":
                time.sleep(LOOK)

    def _try(self) -> dict[str, str]:
        """Train in a worker process. One that dies is replaced, and the run resumes from its last checkpoint, unless
        `Deaths` gives it up."""
        deaths, death, alive = Deaths(self.folder), "", True
        while alive:
            self.worker = worker = Worker(self.threads)
            try:
                worker.give(self.folder, self.device, self.root, self.on_device)
                while not worker.answered(LOOK):
                    pass
                answer = worker.answer()
                if answer is not None:
                    return answer
                death, alive = worker.death(), deaths.again()
            except KeyboardInterrupt:  # how Ray cancels a task
                self.stop()
                raise
            finally:
                worker.dismiss()
            if self.asked:
                return {"fate": "stopped", "message": ""}
        return {"fate": "failed", "message": deaths.message(death)}


def check(workers: int | None, threads: int) -> None:
    """Refuse numbers that no cluster can have."""
    if threads < 1 or (workers is not None and workers < 1):
        raise UserError(f"{workers} workers of {threads} threads; write 1 or more of each")
