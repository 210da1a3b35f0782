"""`manyheads tokenize`: text to shards of token ids, once."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manyheads.spec.errors import UserError

from .numbers import millions, size

if TYPE_CHECKING:
    from manyheads.data.text.tokenise import Told
    from manyheads.data.text.vocabulary import Vocabulary

WORKERS = min(8, os.cpu_count() or 1)


def tokenize(
    files: Annotated[list[Path], typer.Argument(help="Text, JSON lines (also .xz, .gz, .bz2), Hugging Face datasets.")],
    out: Annotated[Path, typer.Option(help="The corpus's folder; below the data root it is data=shards:NAME.")],
    tokenizer: Annotated[
        str | None, typer.Option(help="bytes, stories, gpt2, bert_uncased, or a file or folder.")
    ] = None,
    learn: Annotated[
        str | None, typer.Option(help="Train one on these files instead: bpe:8192, wordpiece:32768.")
    ] = None,
    split: Annotated[str, typer.Option(help="train, or valid for what is held out.")] = "train",
    between: Annotated[str | None, typer.Option(help="In plain text: blank, line, file, or '<|endoftext|>'.")] = None,
    field: Annotated[str, typer.Option(help="In JSON lines and datasets: the field with the text.")] = "text",
    separator: Annotated[str | None, typer.Option(help="A text after each document in place of an end token.")] = None,
    without: Annotated[list[Path] | None, typer.Option(help="Held-out text: what stands in it is dropped.")] = None,
    workers: Annotated[int, typer.Option(help="Processes.")] = WORKERS,
    data_root: Annotated[Path | None, typer.Option(help="Where tokenizers and corpora lie.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Tokenize files into memory-mapped shards; stopped or killed, the same command goes on."""
    from manyheads.data.places import data_root as place
    from manyheads.data.text.tokenise import tokenise
    from manyheads.data.text.vocabulary import load

    if split not in ("train", "valid"):
        raise UserError(f"--split {split}: write train or valid")
    if (tokenizer is None) == (learn is None):
        raise UserError("write either --tokenizer NAME or --learn bpe:SIZE: shards are made with one tokenizer")
    mark = None if between is None else _plain(between)
    root = place(data_root)
    words = load(tokenizer, root) if tokenizer is not None else _learned(str(learn), files, mark, field, out)
    with _progress(as_json) as told:
        made = tokenise(
            files,
            out / split,
            words,
            between=mark,
            field=field,
            workers=workers,
            told=told,
            without=without or [],
            separator=None if separator is None else _plain(separator),
        )
    found = {
        "folder": str(out / split),
        "tokens": made.tokens,
        "documents": made.documents,
        "empty": made.empty,
        "dropped": made.dropped,
        "bytes": made.text_bytes,
        "shards": len(made.shards),
        "tokenizer": made.tokenizer,
        "vocab": made.vocab,
        "digest": made.digest,
    }
    if as_json:
        print(json.dumps(found))
        return
    reasons = [f"{count:,} {why}" for count, why in ((made.empty, "empty"), (made.dropped, "held out")) if count]
    left = f" ({' and '.join(reasons)} left out)" if reasons else ""
    print(
        f"{made.tokens:,} tokens of {made.documents:,} documents{left}: {size(made.text_bytes)} of text, "
        f"{made.text_bytes / made.tokens:.2f} bytes a token, {len(made.shards)} shards in {out / split}"
    )
    here, there = out.resolve(), root.resolve()
    if here.is_relative_to(there) and here != there:
        print(f"train on it with task.data=shards:{here.relative_to(there)} task.vocab={made.vocab}")
    else:
        print(f"train on it with --data-root {here.parent} task.data=shards:{here.name} task.vocab={made.vocab}")


def _plain(text: str) -> str:
    r"""What a shell cannot easily pass: \n and \t."""
    return text.replace("\\n", "\n").replace("\\t", "\t")


def _learned(wanted: str, files: list[Path], between: str | None, field: str, out: Path) -> Vocabulary:
    """The tokenizer that was trained for this folder, or a new one."""
    from manyheads.data.text.documents import documents, sources
    from manyheads.data.text.learn import learn
    from manyheads.data.text.manifest import write
    from manyheads.data.text.vocabulary import load

    kind, _, count = wanted.partition(":")
    if kind not in ("bpe", "wordpiece") or not count.isdigit():
        raise UserError(f"--learn {wanted}: write bpe:SIZE or wordpiece:SIZE, such as bpe:8192")
    kept = out / "tokenizer.json"
    if kept.is_file():  # of a run that was stopped
        found = load(str(kept), out)
        if found.size != int(count):
            raise UserError(
                f"{kept} has {found.size} tokens, and --learn asks for {count}; write --tokenizer {out}, or "
                "another folder"
            )
        return found
    texts = (text for path in sources(files) for text in documents(path, between=between, field=field))
    made = learn(kind, texts, int(count), out.name)  # type: ignore[arg-type]  # checked above
    out.mkdir(parents=True, exist_ok=True)
    write(kept, made.text)
    return made


@contextmanager
def _progress(quiet: bool) -> Iterator[Told | None]:
    """A line that says how far it is; nothing where nobody looks."""
    from rich.console import Console

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield None
        return
    start = time.monotonic()
    with console.status("tokenizing") as status:

        def told(shards: int, text: int, tokens: int, *_: Any) -> None:
            rate = tokens / max(time.monotonic() - start, 1e-9)
            status.update(
                f"{shards} shards, {size(text)} of text, {millions(tokens)} tokens, {millions(rate)} a second"
            )

        yield told
