"""Generated sets (ListOps, Pathfinder, made-up texts) on disk: made once, in parallel, and found by their settings.

A set is a folder of files with a few thousand samples each, and a manifest that is written last. The name of the folder
is a hash of everything that decides what the samples are.

`python -m manyheads.data.lra.generated_sets` is a worker process: it makes the files listed on its standard input.
Workers are not processes of `multiprocessing`: that runs the caller's script a second time to find its functions, and
a script without a guard would train a second time."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.spec.errors import UserError, nearest
from manyheads.spec.files import dump, replace, unwritten
from manyheads.spec.generated import Grammar, Scene, Topics
from manyheads.spec.json_text import parse
from manyheads.spec.lock import Lock

from ..randomness import Indices, key
from . import listops, made_up_texts, pathfinder
from .sequences import Sequences, joined, make_again, manifest_line, packed, read_sequences, write_sequences

SCHEMA = 1
MANIFEST = "manifest.json"
SHARD = 5_000  # samples in a file
POLL = 0.1  # seconds between two looks at the worker processes
Progress = Callable[[int, int], None]  # samples that exist, and all samples


@dataclass(frozen=True)
class SetFile:
    """One file of a set: the samples `start` to `stop` that `key` draws."""

    path: Path
    kind: str
    setting: Any
    key: int
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def make(self) -> None:
        """Draw the samples and write the file."""
        write_sequences(self.path, sample(self.kind, self.setting, self.key, np.arange(self.start, self.stop)))


def _pictures(key_: int, numbers: Indices, scene: Scene) -> Sequences:
    pictures, labels = pathfinder.draw(key_, numbers, scene)
    return joined(pictures.reshape(-1), np.full(len(numbers), scene.side**2), labels)


# kind -> version, type of its settings, function that draws its samples
KINDS: dict[str, tuple[int, type, Callable[[int, Indices, Any], Sequences]]] = {
    "listops": (listops.VERSION, Grammar, listops.sample),
    "pathfinder": (pathfinder.VERSION, Scene, _pictures),
    "text": (made_up_texts.VERSION, Topics, made_up_texts.topic_documents),
    "retrieval": (made_up_texts.VERSION, Topics, made_up_texts.topic_pairs),
}


def sample(kind: str, setting: Any, key_: int, numbers: Indices) -> Sequences:
    """Samples of a kind. Each is a function of the key and its number, whichever others are drawn with it."""
    return _generator(kind)[2](key_, numbers, setting)


def _generator(kind: str) -> tuple[int, type, Callable[[int, Indices, Any], Sequences]]:
    if kind not in KINDS:
        raise UserError(f"{kind!r} is no kind of set{nearest(kind, KINDS)}; known: {', '.join(KINDS)}")
    return KINDS[kind]


def set_folder(root: Path, kind: str, setting: Any, sizes: Mapping[str, int], seed: int) -> tuple[Path, dict[str, Any]]:
    """The folder of a set, and the record that the folder's name is a hash of."""
    record = {
        "kind": kind,
        "version": _generator(kind)[0],
        "setting": asdict(setting),
        "sizes": dict(sizes),
        "seed": seed,
    }
    digest = hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()[:12]
    return root / "lra" / f"{kind}-{digest}", record


def generated_set(
    root: Path,
    kind: str,
    setting: Any,
    sizes: Mapping[str, int],
    seed: int,
    *,
    workers: int = 2,
    progress: Progress | None = None,
) -> dict[str, Sequences]:
    """The splits of a set, `sizes` samples each, read from disk; missing files are made first.

    Sample n of a split is a function of (seed, split, n): splits share samples only by chance, and a larger set begins
    with the smaller one. Files that an interrupted process completed are not made again."""
    folder, record = set_folder(root, kind, setting, sizes, seed)
    manifest = read_manifest(folder)
    if manifest is None:
        with _locked(folder):
            manifest = read_manifest(folder)
            if manifest is None:
                lines = _make_files(folder, record, setting, workers, progress)
                manifest = {"schema": SCHEMA, "made": record, "splits": lines}
                replace(folder / MANIFEST, dump(manifest))
    lines = {split: _lines(manifest, split, folder / MANIFEST) for split, size in sizes.items() if size}
    return {
        split: packed([read_sequences(folder / line["file"], line) for line in files]) for split, files in lines.items()
    }


def _make_files(
    folder: Path, record: dict[str, Any], setting: Any, workers: int, progress: Progress | None
) -> dict[str, list[dict[str, Any]]]:
    """Make the missing files of a set in `workers` processes; gives the lines of the manifest."""
    files = [
        SetFile(
            path=folder / f"{split}-{start // SHARD:05d}.seq",
            kind=record["kind"],
            setting=setting,
            key=key(record["seed"], split),
            start=start,
            stop=min(size, start + SHARD),
        )
        for split, size in record["sizes"].items()
        for start in range(0, size, SHARD)
    ]
    total = sum(record["sizes"].values())

    def report() -> None:
        if progress is not None:
            progress(sum(len(file) for file in files if file.path.exists()), total)

    missing = [file for file in files if not file.path.exists()]
    if workers > 1 and len(missing) > 1:
        _make_in_parallel(missing, min(workers, len(missing)), report)
    else:
        for file in missing:
            file.make()
            report()
    lines: dict[str, list[dict[str, Any]]] = {split: [] for split in record["sizes"]}
    for file in files:
        lines[file.path.name.rpartition("-")[0]].append(manifest_line(file.path))
    return lines


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest of a complete set; None where there is none yet."""
    path = folder / MANIFEST
    if not path.is_file():
        return None
    try:
        manifest = dict(parse(path.read_bytes()))
        schema = manifest["schema"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} cannot be read ({error}); {make_again(path)}") from None
    if schema != SCHEMA:
        raise UserError(f"{path} is of schema {schema}, and this version reads {SCHEMA}; {make_again(path)}")
    return manifest


def _lines(manifest: dict[str, Any], split: str, path: Path) -> list[dict[str, Any]]:
    """The lines of a manifest about the files of a split, each with the name of a file beside it and a checksum."""
    splits = manifest.get("splits")
    lines = splits.get(split) if isinstance(splits, dict) else None
    sound = isinstance(lines, list) and all(
        isinstance(line, dict) and isinstance(line.get("file"), str) and isinstance(line.get("crc32"), int)
        for line in lines
    )
    if not sound or not lines or any(Path(line["file"]).name != line["file"] for line in lines):
        raise UserError(f"{path} is damaged: its `splits` names no files of {split!r}; {make_again(path)}")
    return list(lines)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Create the folder and keep it for this process; another process that needs the same set waits."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritten(folder, error) from None
    lock = Lock(folder / "lock")
    lock.take(patience=inf)
    try:
        yield
    finally:
        lock.release()


def _make_in_parallel(files: Sequence[SetFile], workers: int, report: Callable[[], None]) -> None:
    """Make all files in `workers` processes, and call `report` again and again meanwhile."""
    package = str(Path(__file__).resolve().parents[3])  # the folder that holds manyheads, installed or not
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))}
    processes: list[subprocess.Popen[str]] = []
    try:
        for number in range(workers):
            orders = json.dumps([asdict(file) | {"path": str(file.path)} for file in files[number::workers]])
            command = [sys.executable, "-m", "manyheads.data.lra.generated_sets"]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
            processes.append(process)
            assert process.stdin is not None
            process.stdin.write(orders)
            process.stdin.close()
        while any(process.poll() is None for process in processes):
            report()
            time.sleep(POLL)
        report()
        for process in processes:
            if process.returncode:
                assert process.stderr is not None
                messages = process.stderr.read().strip().splitlines() or [f"it ended with {process.returncode}"]
                raise UserError(f"a process that made part of a set failed: {messages[-1]}")
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
            process.wait()
            if process.stderr is not None:
                process.stderr.close()


def main() -> int:
    """Make the files that standard input lists."""
    try:
        for order in json.load(sys.stdin):
            setting = KINDS[order["kind"]][1](**order["setting"])
            SetFile(**order | {"path": Path(order["path"]), "setting": setting}).make()
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
