"""Tokenize once: documents to shards of ids, in several processes, resumable, the same shards however it was run.

Documents are dealt into pieces of about `PIECE` characters in the order of the sources; a piece is a shard. A shard is
renamed into place when it is whole and its counts are written beside it; a run that starts again skips those. The
manifest comes last: a folder that has one is finished."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.spec.errors import UserError

from .documents import digest, documents, kind, sources
from .manifest import MANIFEST, TOKENIZER, Manifest, Shard, Source, load, write
from .shards import checksum
from .vocabulary import Vocabulary

PLAN = "plan.json"
PIECE = 8_000_000  # characters
Told = Callable[[int, int, int], None]


@dataclass(frozen=True)
class Plan:
    """Everything that decides what the shards will be."""

    tokenizer: str
    digest: str
    between: str | None
    field: str
    separator: int | str
    piece: int
    sources: tuple[Source, ...]
    without: tuple[Source, ...]


def tokenise(
    files: Sequence[Path],
    out: Path,
    vocabulary: Vocabulary,
    *,
    between: str | None = None,
    field: str = "text",
    separator: str | None = None,
    without: Sequence[Path] = (),
    workers: int = 1,
    piece: int = PIECE,
    told: Told | None = None,
) -> Manifest:
    """Shards of the documents in `files`, in the folder `out`; what is there already is kept.

    `between` and `field` say where documents are (see `documents`). After each document stands the tokenizer's end
    token, or the text `separator`, tokenized with it. Documents that stand in the files `without`, which are held out,
    are dropped; white space makes no difference. `told` is called with the shards done, the bytes of text and the
    ids."""
    if workers < 1 or piece < 1:
        raise UserError(f"workers is {workers} and piece {piece}; write whole numbers from 1 on")
    found = sources(files)
    if between is None and any(kind(path) == "text" for path in found):
        documents(next(path for path in found if kind(path) == "text"))  # says what is missing
    mark: int | str = vocabulary.role("end") if separator is None else separator
    listed, apart = (
        tuple(Source(path.name, path.stat().st_size, digest(path)) for path in paths) for paths in (found, without)
    )
    plan = Plan(vocabulary.name, vocabulary.digest, between, field, mark, piece, listed, apart)
    if (done := _begin(out, plan)) is not None:
        return done
    if vocabulary.text:
        write(out / TOKENIZER, vocabulary.text)
    keep = Apart(without, field)
    texts = (text for path in found for text in documents(path, between=between, field=field) if keep(text))
    shards = _all(_pieces(texts, piece), out, vocabulary, mark, workers, told)
    if not sum(shard.tokens for shard in shards):
        raise UserError(f"{', '.join(path.name for path in found)}: no document has any text, so nothing was written")
    made = Manifest(
        vocabulary.name,
        vocabulary.digest,
        vocabulary.size,
        vocabulary.roles,
        mark,
        between,
        field,
        "uint16" if vocabulary.size <= 2**16 else "uint32",
        sum(shard.empty for shard in shards),
        listed,
        tuple(shard for shard in shards if shard.tokens),
        apart,
        keep.dropped,
    )
    made.save(out)
    for path in [out / PLAN, *out.glob("shard-*.json")]:
        path.unlink()
    return made


def _begin(out: Path, plan: Plan) -> Manifest | None:
    """Make the folder ready; the manifest where it is finished. A folder of other shards is left as it is."""
    wanted = json.dumps(asdict(plan), sort_keys=True, indent=1)
    if (out / MANIFEST).is_file():
        done = load(out)
        differ = [
            name
            for name in ("digest", "sources", "separator", "between", "field", "without")
            if getattr(done, name) != getattr(plan, name)
        ]
        if differ:
            what = "another tokenizer" if differ[0] == "digest" else f"other {' and '.join(differ)}"
            raise UserError(f"{out} holds finished shards of {what}; write another folder, or delete that one")
        return done
    try:
        out.mkdir(parents=True, exist_ok=True)
        others = [path for path in out.iterdir() if not path.name.startswith(("shard-", PLAN, TOKENIZER, MANIFEST))]
    except OSError as error:
        raise UserError(f"{out} cannot be made: {error.strerror or error}; write another folder") from None
    if (out / PLAN).is_file():
        if (out / PLAN).read_text() != wanted:
            raise UserError(
                f"{out} holds the beginning of another tokenization (its {PLAN} says which); go on with the "
                "same files and tokenizer, write another folder, or delete that one"
            )
    elif others:
        raise UserError(f"{out} holds {others[0].name}, which is no shard; write a new folder")
    else:
        write(out / PLAN, wanted)
    return None


class Apart:
    """Whether a document may be trained on: not if it stands in what is held out. Counts those that do."""

    def __init__(self, files: Sequence[Path], field: str) -> None:
        texts = (text for path in files for text in documents(path, between="file", field=field))
        self.held = " ".join(" ".join(text.split()) for text in texts)
        self.dropped = 0

    def __call__(self, text: str) -> bool:
        """True for a document that is nowhere in the held-out text; an empty one is nowhere."""
        found = bool(self.held and text) and " ".join(text.split()) in self.held
        self.dropped += found
        return not found


def _pieces(texts: Iterator[str], size: int) -> Iterator[list[str]]:
    """Documents in order, dealt into pieces of at least `size` characters."""
    held: list[str] = []
    length = 0
    for text in texts:
        held.append(text)
        length += len(text)
        if length >= size:
            yield held
            held, length = [], 0
    if held:
        yield held


def _all(
    pieces: Iterator[list[str]], out: Path, vocabulary: Vocabulary, mark: int | str, workers: int, told: Told | None
) -> list[Shard]:
    """The shards of all pieces, those that are there already read from their records."""
    done: dict[int, Shard] = {}

    def finished(index: int, shard: Shard) -> None:
        done[index] = shard
        if told is not None:
            told(len(done), sum(s.text_bytes for s in done.values()), sum(s.tokens for s in done.values()))

    missing = ((i, texts) for i, texts in enumerate(pieces) if not _there(out, i, finished))
    if workers == 1:
        for index, texts in missing:
            finished(index, _shard(index, texts, out, vocabulary, mark))
    else:
        context = get_context("spawn")
        with ProcessPoolExecutor(workers, context, initializer=_start, initargs=(vocabulary,)) as pool:
            try:
                _dealt(missing, pool, out, mark, 2 * workers, finished)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    return [shard for _, shard in sorted(done.items())]


def _there(out: Path, index: int, finished: Callable[[int, Shard], None]) -> bool:
    """Whether a piece is done: its record is whole and its file is as long as that says."""
    with suppress(OSError, ValueError, TypeError):
        shard = Shard(**json.loads((out / f"shard-{index:06}.json").read_text()))
        if not shard.tokens or (out / shard.file).stat().st_size in (2 * shard.tokens, 4 * shard.tokens):
            finished(index, shard)
            return True
    return False


def _dealt(
    missing: Iterator[tuple[int, list[str]]],
    pool: ProcessPoolExecutor,
    out: Path,
    mark: int | str,
    most: int,
    finished: Callable[[int, Shard], None],
) -> None:
    """Pieces to the processes, `most` under way at a time: a corpus is never in memory as a whole."""
    running: dict[Future[Shard], int] = {}

    def collect(limit: int) -> None:
        while len(running) > limit:
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                finished(running.pop(future), future.result())

    for index, texts in missing:
        collect(most - 1)
        running[pool.submit(_work, index, texts, out, mark)] = index
    collect(0)


_VOCABULARY: list[Any] = []  # of a worker process


def _start(vocabulary: Vocabulary) -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # processes are parallel enough
    _VOCABULARY[:] = [vocabulary]


def _work(index: int, texts: list[str], out: Path, mark: int | str) -> Shard:
    return _shard(index, texts, out, _VOCABULARY[0], mark)


def _shard(index: int, texts: list[str], out: Path, vocabulary: Vocabulary, mark: int | str) -> Shard:
    """Tokenize a piece and write its shard, then its record."""
    real = [text for text in texts if text]
    after = mark if isinstance(mark, str) else ""
    ids = vocabulary.encode([text + after for text in real])
    if isinstance(mark, int):
        for found in ids:
            found.append(mark)
    dtype = np.dtype("<u2" if vocabulary.size <= 2**16 else "<u4")
    row = np.fromiter(chain.from_iterable(ids), np.int64, sum(map(len, ids)))
    if len(row) and (row.min() < 0 or row.max() >= vocabulary.size):
        raise UserError(
            f"tokenizer {vocabulary.name} gave ids from {row.min()} to {row.max()}, and has 0 to "
            f"{vocabulary.size - 1}; its files do not belong together"
        )
    stored = row.astype(dtype)
    name = f"shard-{index:06}"
    largest = int(stored.max(initial=0))
    text_bytes = sum(len(text.encode()) for text in real)
    shard = Shard(f"{name}.bin", len(stored), len(real), len(texts) - len(real), text_bytes, largest, checksum(stored))
    if len(stored):
        write(out / shard.file, stored.tobytes())
    write(out / f"{name}.json", json.dumps(asdict(shard)))
    return shard
