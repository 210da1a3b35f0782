"""Tokenize files once: documents become shards of ids, in several processes, resumably, always the same shards.

The documents of the source files are collected in order into pieces of about `PIECE` characters; each piece becomes a
shard. A shard appears when it is complete, with its counts in a record beside it, and a run that resumes skips it. The
manifest is written last: a folder with a manifest is finished."""

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
from manyheads.spec.field_checks import whole
from manyheads.spec.files import replace

from .documents import all_documents, digest, documents, kind, sources
from .shards import MANIFEST, TOKENIZER, Manifest, Shard, SourceFile, checksum, read_manifest
from .vocabulary import Vocabulary

PLAN_FILE = "plan.json"
PIECE = 8_000_000  # characters
Progress = Callable[[int, int, int], None]  # shards, bytes of text and ids that are done


@dataclass(frozen=True, kw_only=True)
class ShardPlan:
    """Everything that decides what the shards will be."""

    tokenizer: str
    digest: str
    between: str | None
    field: str
    separator: int | str
    piece: int
    sources: tuple[SourceFile, ...]
    without: tuple[SourceFile, ...]
    but_last: int
    only_last: int


def tokenize_files(
    files: Sequence[Path],
    out: Path,
    vocabulary: Vocabulary,
    *,
    between: str | None = None,
    field: str = "text",
    separator: str | None = None,
    without: Sequence[Path] = (),
    but_last: int = 0,
    only_last: int = 0,
    workers: int = 1,
    piece: int = PIECE,
    progress: Progress | None = None,
) -> Manifest:
    """Write the documents of `files` as shards into the folder `out`; shards that are finished are kept.

    `between` and `field` say where the documents are (see `documents`). After each document comes the tokenizer's end
    token, or the text `separator`, which is tokenized with the document. Documents that occur in the held-out files
    `without` are dropped; differences in white space are ignored. `but_last` leaves out the last so many documents of the
    files, and `only_last` all others, so that two calls divide one corpus."""
    for name, count in (("workers", workers), ("piece", piece)):
        whole(name, count)
    paths = sources(files)
    if between is None and any(kind(path) == "text" for path in paths):
        documents(next(path for path in paths if kind(path) == "text"))  # raises the error that says what is missing
    mark: int | str = vocabulary.role("end") if separator is None else separator
    plan = ShardPlan(
        tokenizer=vocabulary.name,
        digest=vocabulary.digest,
        between=between,
        field=field,
        separator=mark,
        piece=piece,
        sources=_described(paths),
        without=_described(without),
        but_last=but_last,
        only_last=only_last,
    )
    finished = _begin(out, plan)
    if finished is not None:
        return finished
    if vocabulary.text:
        replace(out / TOKENIZER, vocabulary.text.encode())
    held_out = HeldOut(without, field)
    read = all_documents(paths, between=between, field=field, but_last=but_last, only_last=only_last)
    texts = (text for text in read if text not in held_out)
    shards = _write_shards(_pieces(texts, piece), out, vocabulary, mark, workers, progress)
    if not sum(shard.tokens for shard in shards):
        raise UserError(f"{', '.join(path.name for path in paths)}: no document has any text, so nothing was written")
    manifest = Manifest(
        tokenizer=vocabulary.name,
        digest=vocabulary.digest,
        vocab=vocabulary.size,
        roles=vocabulary.roles,
        separator=mark,
        between=between,
        field=field,
        dtype="uint16" if vocabulary.size <= 2**16 else "uint32",
        empty=sum(shard.empty for shard in shards),
        sources=plan.sources,
        shards=tuple(shard for shard in shards if shard.tokens),
        without=plan.without,
        dropped=held_out.dropped,
        but_last=but_last,
        only_last=only_last,
    )
    manifest.save(out)
    for path in [out / PLAN_FILE, *out.glob("shard-*.json")]:
        path.unlink()
    return manifest


def _described(paths: Sequence[Path]) -> tuple[SourceFile, ...]:
    return tuple(SourceFile(path.name, path.stat().st_size, digest(path)) for path in paths)


def _begin(out: Path, plan: ShardPlan) -> Manifest | None:
    """Prepare the folder. Gives the manifest if the folder is finished; refuses a folder of other shards."""
    text = json.dumps(asdict(plan), sort_keys=True, indent=1)
    if (out / MANIFEST).is_file():
        manifest = read_manifest(out)
        differ = [
            name
            for name in ("digest", "sources", "separator", "between", "field", "without", "but_last", "only_last")
            if getattr(manifest, name) != getattr(plan, name)
        ]
        if differ:
            what = "another tokenizer" if differ[0] == "digest" else f"other {' and '.join(differ)}"
            raise UserError(f"{out} holds finished shards of {what}; write another folder, or delete that one")
        return manifest
    try:
        out.mkdir(parents=True, exist_ok=True)
        others = [
            path for path in out.iterdir() if not path.name.startswith(("shard-", PLAN_FILE, TOKENIZER, MANIFEST))
        ]
    except OSError as error:
        raise UserError(f"{out} cannot be made: {error.strerror or error}; write another folder") from None
    if (out / PLAN_FILE).is_file():
        if (out / PLAN_FILE).read_bytes() != text.encode():
            raise UserError(
                f"{out} holds the beginning of another tokenization (its {PLAN_FILE} says which); continue with the "
                "same files and tokenizer, write another folder, or delete that one"
            )
    elif others:
        raise UserError(f"{out} holds {others[0].name}, which is no shard; write a new folder")
    else:
        replace(out / PLAN_FILE, text.encode())
    return None


class HeldOut:
    """The text of the held-out files. `document in held_out` says whether a document occurs in it, and counts those
    that do in `dropped`."""

    def __init__(self, files: Sequence[Path], field: str) -> None:
        texts = (text for path in files for text in documents(path, between="file", field=field))
        self.text = " ".join(" ".join(text.split()) for text in texts)
        self.dropped = 0

    def __contains__(self, document: str) -> bool:
        """Whether the document occurs in the held-out text; an empty one does not."""
        inside = bool(self.text and document) and " ".join(document.split()) in self.text
        self.dropped += inside
        return inside


def _pieces(texts: Iterator[str], size: int) -> Iterator[list[str]]:
    """Documents in order, in pieces of at least `size` characters."""
    piece: list[str] = []
    length = 0
    for text in texts:
        piece.append(text)
        length += len(text)
        if length >= size:
            yield piece
            piece, length = [], 0
    if piece:
        yield piece


def _write_shards(
    pieces: Iterator[list[str]],
    out: Path,
    vocabulary: Vocabulary,
    mark: int | str,
    workers: int,
    progress: Progress | None,
) -> list[Shard]:
    """Write the shards of all pieces. Shards that exist are not written again: their records are read."""
    shards: dict[int, Shard] = {}

    def finish(index: int, shard: Shard) -> None:
        shards[index] = shard
        if progress is not None:
            done = shards.values()
            progress(len(done), sum(shard.text_bytes for shard in done), sum(shard.tokens for shard in done))

    missing = ((index, texts) for index, texts in enumerate(pieces) if not _exists(out, index, finish))
    if workers == 1:
        for index, texts in missing:
            finish(index, _write_shard(index, texts, out, vocabulary, mark))
    else:
        context = get_context("spawn")
        with ProcessPoolExecutor(workers, context, initializer=_start_worker, initargs=(vocabulary,)) as pool:
            try:
                _write_in_parallel(missing, pool, out, mark, 2 * workers, finish)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    return [shard for _, shard in sorted(shards.items())]


def _exists(out: Path, index: int, finish: Callable[[int, Shard], None]) -> bool:
    """Whether a shard is complete: its record can be read and its file has the length that the record states."""
    with suppress(OSError, ValueError, TypeError):
        shard = Shard(**json.loads((out / f"shard-{index:06}.json").read_text()))
        if not shard.tokens or (out / shard.file).stat().st_size in (2 * shard.tokens, 4 * shard.tokens):
            finish(index, shard)
            return True
    return False


def _write_in_parallel(
    missing: Iterator[tuple[int, list[str]]],
    pool: ProcessPoolExecutor,
    out: Path,
    mark: int | str,
    most: int,
    finish: Callable[[int, Shard], None],
) -> None:
    """Hand pieces to the processes, at most `most` at a time, so that the whole corpus is never in memory."""
    running: dict[Future[Shard], int] = {}

    def collect(limit: int) -> None:
        while len(running) > limit:
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                finish(running.pop(future), future.result())

    for index, texts in missing:
        collect(most - 1)
        running[pool.submit(_work, index, texts, out, mark)] = index
    collect(0)


_VOCABULARY: list[Any] = []  # in a worker process


def _start_worker(vocabulary: Vocabulary) -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the processes already use all cores
    _VOCABULARY[:] = [vocabulary]


def _work(index: int, texts: list[str], out: Path, mark: int | str) -> Shard:
    return _write_shard(index, texts, out, _VOCABULARY[0], mark)


def _write_shard(index: int, texts: list[str], out: Path, vocabulary: Vocabulary, mark: int | str) -> Shard:
    """Tokenize a piece, write its shard, then the shard's record."""
    real = [text for text in texts if text]
    after = mark if isinstance(mark, str) else ""
    ids = vocabulary.encode([text + after for text in real])
    if isinstance(mark, int):
        for document in ids:
            document.append(mark)
    row = np.fromiter(chain.from_iterable(ids), np.int64, sum(map(len, ids)))
    if len(row) and (row.min() < 0 or row.max() >= vocabulary.size):
        raise UserError(
            f"tokenizer {vocabulary.name} gave ids from {row.min()} to {row.max()}, and has 0 to "
            f"{vocabulary.size - 1}; its files do not belong together"
        )
    stored = row.astype("<u2" if vocabulary.size <= 2**16 else "<u4")
    name = f"shard-{index:06}"
    shard = Shard(
        file=f"{name}.bin",
        tokens=len(stored),
        documents=len(real),
        empty=len(texts) - len(real),
        text_bytes=sum(len(text.encode()) for text in real),
        largest=int(stored.max(initial=0)),
        crc32=checksum(stored),
    )
    if len(stored):
        replace(out / shard.file, stored.tobytes())
    replace(out / f"{name}.json", json.dumps(asdict(shard)).encode())
    return shard
