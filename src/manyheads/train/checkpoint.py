"""Checkpoints: safetensors written by every process through torch.distributed.checkpoint, and a note beside them.

    checkpoint/step-00001000/note.json            run, step, elapsed seconds, sizes of the JSON lines, hashes of the files
                                                  and of the note itself
                             shard-*.safetensors  model, moments, averages; any number of processes can read them

A checkpoint is written under a temporary name and renamed when it is on the disk, so one under its final name is
complete; its hashes show whether it was damaged or changed since. The newest two are kept. When one is written, any
checkpoint of a later step is deleted: resuming has skipped it as damaged."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from manyheads.spec import serialise
from manyheads.spec.errors import UserError
from manyheads.spec.field_checks import between, check_types
from manyheads.spec.files import PARTIAL, canonical, dump, open_file, read_object, replace, sync_folder, unwritten

from .parallel import Ranks

SCHEMA = 1
NOTE = "note.json"
KEPT = 2
LARGEST = 1e15  # of every number in a note
NAME = re.compile(r"step-(\d{8,})")


@dataclass(frozen=True)
class Sizes:
    """Bytes in the files of JSON lines at the moment of the checkpoint; resuming cuts the files back to these."""

    metrics: int
    spectra: int
    timings: int


@dataclass(frozen=True)
class CheckpointNote:
    """What a checkpoint holds beside its tensors. `told` is the number of steps whose losses are in the log; `samples`
    is 0 where it equals steps times batch, and `on_device`, the largest number of runs that shared the device so far,
    where nobody knows it."""

    run: str
    step: int
    told: int
    elapsed: float
    processes: int
    sizes: Sizes
    samples: int = field(default=0, metadata={"later": True})
    on_device: int = field(default=0, metadata={"later": True})
    schema: int = SCHEMA

    def __post_init__(self) -> None:
        check_types(self, NOTE)
        between("elapsed", self.elapsed, 0, LARGEST)
        between("processes", self.processes, 1, LARGEST, whole=True)
        counts = {"step": self.step, "samples": self.samples} | serialise.to_dict(self.sizes)
        for name, count in counts.items():
            between(name, count, 0, LARGEST, whole=True)
        between("told", self.told, 0, self.step, whole=True)


class Damaged(UserError):
    """A checkpoint whose files are not as they were written."""


def save(folder: Path, tensors: dict[str, Tensor], note: CheckpointNote, ranks: Ranks) -> None:
    """Write a checkpoint, each process its shard. The checkpoint exists from the moment it gets its final name."""
    final = folder / f"step-{note.step:08d}"
    partial = final.with_name(final.name + PARTIAL)
    if ranks.first:
        with _write_errors(partial):
            if not folder.exists():
                folder.mkdir()
                sync_folder(folder.parent)
            for unfinished in folder.glob(f"step-*{PARTIAL}"):  # left by a kill
                _delete(unfinished)
            partial.mkdir()
    ranks.wait()
    try:
        _write(partial, tensors, ranks)
        if ranks.first:
            with _write_errors(partial):
                data = serialise.to_dict(note) | {"files": _manifest(partial)}
                replace(partial / NOTE, dump(data | {"digest": _digest(data)}))
                if os.path.lexists(final):  # it is damaged: from an intact one this step would not have been repeated
                    _delete(final)
                partial.rename(final)
                sync_folder(folder)
                checkpoints = _all(folder)
                newest_two = [path for path in checkpoints if path.is_dir() and _step(path) <= note.step][:KEPT]
                for path in checkpoints:
                    if path not in newest_two:
                        _delete(path)
    except BaseException:
        if ranks.first:
            shutil.rmtree(partial, ignore_errors=True)
        raise
    ranks.wait()


def present(folder: Path) -> bool:
    """Whether a run has a checkpoint, intact or not."""
    return bool(_all(folder))


def newest(folder: Path, run: str, say: Callable[[str], None], ranks: Ranks) -> tuple[Path, CheckpointNote] | None:
    """The newest intact checkpoint; damaged ones are skipped with a message, and another run's is refused. The first
    process looks, and all processes take the one it chose."""
    chosen = _newest_intact(folder, run, say) if ranks.first else None
    (step,) = ranks.agree(-1 if chosen is None else chosen[1].step)
    if chosen is None and step >= 0:
        path = folder / f"step-{int(step):08d}"
        chosen = path, _read(path, hashes=False)
    return chosen


def _newest_intact(folder: Path, run: str, say: Callable[[str], None]) -> tuple[Path, CheckpointNote] | None:
    for path in _all(folder):
        try:
            note = _read(path)
            if note.run == run and note.step != _step(path):
                raise Damaged(f"{path} is damaged: its {NOTE} says step {note.step}")
        except Damaged as error:
            say(f"{error}; it is skipped")
            continue
        if note.run != run:
            raise UserError(
                f"{path} is a checkpoint of run {note.run}, and this is run {run}; put it back where it "
                "belongs, or delete it"
            )
        return path, note
    return None


def load(path: Path, tensors: dict[str, Tensor], ranks: Ranks) -> None:
    """Read a checkpoint into `tensors`, each process its shard, whatever number of processes wrote it."""
    import torch.distributed.checkpoint as dcp

    with _quiet():
        dcp.load(_views(tensors), storage_reader=dcp.HuggingFaceStorageReader(str(path)), no_dist=ranks.world == 1)


def _write(folder: Path, tensors: dict[str, Tensor], ranks: Ranks) -> None:
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.api import CheckpointException

    writer = dcp.HuggingFaceStorageWriter(str(folder), save_distributed=True)  # it syncs each file to the disk
    try:
        with _quiet():
            dcp.save(_views(tensors), storage_writer=writer, no_dist=ranks.world == 1)
    except CheckpointException as error:
        cause = next(iter(error.failures.values()))[0]
        if isinstance(cause, OSError):
            raise unwritten(folder, cause) from error
        raise


def _views(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Scalars as vectors of one number: not every version of safetensors reads a slice of a scalar."""
    return {
        name: tensor.detach().reshape(1) if tensor.ndim == 0 else tensor.detach() for name, tensor in tensors.items()
    }


def _all(folder: Path) -> list[Path]:
    """The checkpoints of a run, newest first."""
    return sorted((path for path in folder.glob("step-*") if NAME.fullmatch(path.name)), key=_step, reverse=True)


def _step(path: Path) -> int:
    return int(path.name.removeprefix("step-"))


def _read(path: Path, *, hashes: bool = True) -> CheckpointNote:
    """The note of a checkpoint. With `hashes`, its tensor files are checked, too."""
    try:
        data = read_object(path / NOTE)
        if data is None:
            raise UserError(f"it has no {NOTE}")
        if data.get("schema") != SCHEMA:
            raise UserError(f"its schema is {data.get('schema')!r}, and this version reads {SCHEMA}")
        written = data.pop("digest", None)
        if written is not None and written != _digest(data):  # checkpoints of earlier versions have none
            raise UserError(f"{NOTE} is not as it was written")
        files = data.pop("files", None)
        if not isinstance(files, dict):
            raise UserError(f"{NOTE} names no files")
        note = serialise.from_dict(CheckpointNote, data, NOTE)
        if hashes and files != (present := _manifest(path)):
            wrong = sorted(name for name in {*present, *files} if present.get(name) != files.get(name))
            raise UserError(f"{', '.join(wrong[:2])} is not as it was written")
    except (OSError, ValueError, RecursionError) as error:
        raise Damaged(f"{path} is damaged: {error}") from None
    return note


def _digest(data: dict[str, Any]) -> str:
    """The hash of all that a note says."""
    return hashlib.sha256(canonical(data).encode()).hexdigest()


def _manifest(folder: Path) -> dict[str, str]:
    """The hash of every tensor file of a checkpoint."""
    hashes = {}
    for path in sorted(folder.glob("*.safetensors")):
        with open_file(path) as file:
            hashes[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return hashes


def _delete(path: Path) -> None:
    """Delete a checkpoint, or whatever stands in its place."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


@contextmanager
def _write_errors(path: Path) -> Iterator[None]:
    """Turn a failed write into a sentence for the user."""
    try:
        yield
    except OSError as error:
        raise unwritten(path, error) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence PyTorch's warning that a single process saves alone."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*single process.*")
        yield
