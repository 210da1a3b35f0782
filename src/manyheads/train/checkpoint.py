"""Checkpoints: safetensors written by every process through torch.distributed.checkpoint, and a note beside them.

    checkpoint/step-00001000/note.json            run, step, elapsed seconds, sizes of the JSON lines, hashes of the files
                             shard-*.safetensors  model, moments, averages; any number of processes can read them

A checkpoint is written under a temporary name and renamed when it is on the disk, so one under its final name is
complete; its hashes show whether the disk has damaged it since. The newest two are kept. When one is written, any
checkpoint of a later step is deleted: resuming has skipped it as damaged."""

from __future__ import annotations

import hashlib
import re
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from manyheads.spec import serialise
from manyheads.spec.errors import UserError
from manyheads.spec.field_checks import check_types
from manyheads.spec.files import PARTIAL, dump, read_object, replace, sync_folder, unwritten

from .parallel import Ranks

SCHEMA = 1
NOTE = "note.json"
KEPT = 2
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
            for unfinished in folder.glob(f"*{PARTIAL}"):  # left by a kill
                shutil.rmtree(unfinished)
            partial.mkdir()
    ranks.wait()
    try:
        _write(partial, tensors, ranks)
        if ranks.first:
            with _write_errors(partial):
                replace(partial / NOTE, dump(serialise.to_dict(note) | {"files": _manifest(partial)}))
                if final.exists():  # it is damaged: from an intact one this step would not have been repeated
                    shutil.rmtree(final)
                partial.rename(final)
                sync_folder(folder)
                checkpoints = _all(folder)
                newest_two = [path for path in checkpoints if _step(path) <= note.step][:KEPT]
                for path in checkpoints:
                    if path not in newest_two:
                        shutil.rmtree(path)
    except BaseException:
        if ranks.first:
            shutil.rmtree(partial, ignore_errors=True)
        raise
    ranks.wait()


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


def clear(folder: Path) -> None:
    """Delete all checkpoints, when the run is done and its model saved."""
    shutil.rmtree(folder, ignore_errors=True)


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
        files = data.pop("files", None)
        note = serialise.from_dict(CheckpointNote, data, NOTE)
        if hashes and files != (present := _manifest(path)):
            wrong = sorted(name for name in {*present, *(files or {})} if present.get(name) != (files or {}).get(name))
            raise UserError(f"{', '.join(wrong[:2])} is not as it was written")
    except (UserError, OSError) as error:
        raise Damaged(f"{path} is damaged: {error}") from None
    return note


def _manifest(folder: Path) -> dict[str, str]:
    """The hash of every tensor file of a checkpoint."""
    hashes = {}
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            hashes[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return hashes


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
