"""The sets that we make ourselves, kept on disk: made once, in parallel, and found again by what they are made of."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.spec.errors import UserError, nearest
from manyheads.spec.generated import Grammar, Scene, Topics

from ..draws import key
from . import listops, pack, pathfinder, words
from .sequences import Indices, Sequences, joined, packed
from .worker import side_by_side

SHARD = 5_000  # samples in a file
Progress = Callable[[int, int], None]  # samples that are there, and all


@dataclass(frozen=True)
class Job:
    """One file to make."""

    path: Path
    kind: str
    setting: Any
    key: int
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def run(self) -> None:
        """Make it."""
        pack.write(self.path, sample(self.kind, self.setting, self.key, np.arange(self.start, self.stop)))


def _pictures(key_: int, numbers: Indices, scene: Scene) -> Sequences:
    pictures, labels = pathfinder.draw(key_, numbers, scene)
    return joined(pictures.reshape(-1), np.full(len(numbers), scene.side**2), labels)


# kind -> version, record of its settings, what makes samples of it
KINDS: dict[str, tuple[int, type, Callable[[int, Indices, Any], Sequences]]] = {
    "listops": (listops.VERSION, Grammar, listops.sample),
    "pathfinder": (pathfinder.VERSION, Scene, _pictures),
    "text": (words.VERSION, Topics, words.classify),
    "retrieval": (words.VERSION, Topics, words.pairs),
}


def sample(kind: str, setting: Any, key_: int, numbers: Indices) -> Sequences:
    """Samples of a kind: a function of key and number, whatever else is asked for."""
    return _kind(kind)[2](key_, numbers, setting)


def _kind(kind: str) -> tuple[int, type, Callable[[int, Indices, Any], Sequences]]:
    if kind not in KINDS:
        raise UserError(f"{kind!r} is no kind of set{nearest(kind, KINDS)}; known: {', '.join(KINDS)}")
    return KINDS[kind]


def place(root: Path, kind: str, setting: Any, sizes: Mapping[str, int], seed: int) -> tuple[Path, dict[str, Any]]:
    """Where a set is kept, and the record that its name stands for."""
    made = {"kind": kind, "version": _kind(kind)[0], "setting": asdict(setting), "sizes": dict(sizes), "seed": seed}
    digest = hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()[:12]
    return root / "lra" / f"{kind}-{digest}", made


def kept(
    root: Path,
    kind: str,
    setting: Any,
    sizes: Mapping[str, int],
    seed: int,
    *,
    workers: int = 2,
    progress: Progress | None = None,
) -> dict[str, Sequences]:
    """The splits of a set, `sizes` samples each, from the disk; what is not there yet is made first.

    Sample n of a split is a function of (seed, split, n): splits never share samples but by chance, and a larger set
    starts with the smaller one. Files that an interrupted process left complete are not made again."""
    folder, made = place(root, kind, setting, sizes, seed)
    if pack.manifest(folder) is None:
        with pack.alone(folder):
            if pack.manifest(folder) is None:
                pack.finish(folder, made, _make(folder, made, setting, workers, progress))
    found = pack.manifest(folder)
    assert found is not None
    lines = {split: found["splits"][split] for split, size in sizes.items() if size}
    return {split: packed([pack.read(folder / line["file"], line) for line in own]) for split, own in lines.items()}


def _make(
    folder: Path, made: dict[str, Any], setting: Any, workers: int, progress: Progress | None
) -> dict[str, list[dict[str, Any]]]:
    """All files of a set, those that are missing made by `workers` processes; gives the manifest's lines."""
    jobs = [
        Job(
            folder / f"{split}-{start // SHARD:05d}.seq",
            made["kind"],
            setting,
            key(made["seed"], split),
            start,
            min(size, start + SHARD),
        )
        for split, size in made["sizes"].items()
        for start in range(0, size, SHARD)
    ]
    total = sum(made["sizes"].values())

    def look() -> None:
        if progress is not None:
            progress(sum(len(job) for job in jobs if job.path.exists()), total)

    missing = [job for job in jobs if not job.path.exists()]
    if workers > 1 and len(missing) > 1:
        side_by_side(missing, min(workers, len(missing)), look)
    else:
        for job in missing:
            job.run()
            look()
    lines: dict[str, list[dict[str, Any]]] = {split: [] for split in made["sizes"]}
    for job in jobs:
        lines[job.path.name.rpartition("-")[0]].append(pack.line(job.path))
    return lines
