"""`manyheads tokenize`: turn text files into shards of token ids."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from manyheads.spec.datasets import check_split
from manyheads.spec.errors import UserError
from manyheads.spec.shell import word

from .numbers import DIGITS, millions, size

if TYPE_CHECKING:
    from manyheads.data.text.tokenization import Progress
    from manyheads.data.text.vocabulary import Vocabulary

WORKERS = min(8, os.cpu_count() or 1)
HELD = 0.1  # share of a corpus without a split valid that the printed command holds out


def tokenize(
    files: Annotated[
        list[Path], typer.Argument(help="Text, JSON lines (also as .xz, .gz, .bz2), Hugging Face datasets.")
    ],
    out: Annotated[
        Path, typer.Option(help="Folder of the corpus. Below the data root, it is named --data shards:NAME.")
    ],
    tokenizer: Annotated[
        str | None, typer.Option(help="bytes, stories, gpt2, bert_uncased, or a file or folder.")
    ] = None,
    learn: Annotated[
        str | None, typer.Option(help="Train a tokenizer on these files instead: bpe:8192, wordpiece:32768.")
    ] = None,
    split: Annotated[
        str, typer.Option(help="train, or valid for held-out text; any other word for more held-out text.")
    ] = "train",
    between: Annotated[
        str | None, typer.Option(help="What separates documents in plain text: blank, line, file, or '<|endoftext|>'.")
    ] = None,
    field: Annotated[str, typer.Option(help="Field with the text in JSON lines and datasets.")] = "text",
    separator: Annotated[
        str | None, typer.Option(help="Text to put after each document instead of the end token.")
    ] = None,
    without: Annotated[
        list[Path] | None, typer.Option(help="Held-out text: documents that occur in it are dropped.")
    ] = None,
    but_last: Annotated[int, typer.Option(help="Leave out the last so many documents of these files.")] = 0,
    only_last: Annotated[int, typer.Option(help="Leave out all but the last so many documents of these files.")] = 0,
    workers: Annotated[int, typer.Option(help="Number of parallel processes.")] = WORKERS,
    data_root: Annotated[Path | None, typer.Option(help="Folder of tokenizers and corpora.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Tokenize files into memory-mapped shards. Run the same command again to continue after an interruption."""
    from manyheads.data.local_data import data_root as data_folder
    from manyheads.data.text.tokenization import tokenize_files
    from manyheads.data.text.vocabulary import load

    check_split(split)
    if (tokenizer is None) == (learn is None):
        raise UserError("write either --tokenizer NAME or --learn bpe:SIZE: shards are made with one tokenizer")
    mark = None if between is None else _unescaped(between)
    root = data_folder(data_root)
    trained = _trained(str(learn), files, mark, field, out, but_last, only_last) if tokenizer is None else None
    vocabulary = trained or load(str(tokenizer), root)
    with _progress(as_json) as progress:
        manifest = tokenize_files(
            files,
            out / split,
            vocabulary,
            between=mark,
            field=field,
            workers=workers,
            progress=progress,
            without=without or [],
            but_last=but_last,
            only_last=only_last,
            separator=None if separator is None else _unescaped(separator),
        )
    if as_json:
        summary = {
            "folder": str(out / split),
            "tokens": manifest.tokens,
            "documents": manifest.documents,
            "empty": manifest.empty,
            "dropped": manifest.dropped,
            "bytes": manifest.text_bytes,
            "shards": len(manifest.shards),
            "tokenizer": manifest.tokenizer,
            "vocab": manifest.vocab,
            "digest": manifest.digest,
        }
        print(json.dumps(summary))
        return
    counts = ((manifest.empty, "empty"), (manifest.dropped, "held out"))
    reasons = [f"{count:,} {why}" for count, why in counts if count]
    left_out = f" ({' and '.join(reasons)} left out)" if reasons else ""
    print(
        f"{manifest.tokens:,} tokens of {manifest.documents:,} documents{left_out}: {size(manifest.text_bytes)} of "
        f"text, {manifest.text_bytes / manifest.tokens:.2f} bytes a token, {len(manifest.shards)} shards in "
        f"{out / split}"
    )
    print(_next(out, root, manifest.roles))


def _next(out: Path, root: Path, roles: Mapping[str, int]) -> str:
    """What to do with the corpus: the command that trains on it, once there is text to train on."""
    from manyheads.data.text.shards import MANIFEST

    if not (out / "train" / MANIFEST).is_file():
        return f"held-out text alone trains nothing; tokenize training text with --out {word(out)} too"
    here, there = Path(os.path.realpath(out)), Path(os.path.realpath(root))
    inside = here.is_relative_to(there) and here != there
    where = "" if inside else f" --data-root {word(here.parent)}"
    name = here.relative_to(there) if inside else here.name
    held = "" if (out / "valid" / MANIFEST).is_file() else f" --set task.held={HELD}"
    model = "crammed_bert" if "mask" in roles and "end" not in roles else "gpt2_tinystories"
    return f"train on it: manyheads train {model}{where} --data {word(f'shards:{name}')}{held}"


def _unescaped(text: str) -> str:
    r"""Text with \n and \t replaced by a line break and a tab, which are hard to pass through a shell."""
    return text.replace("\\n", "\n").replace("\\t", "\t")


def _trained(
    wanted: str, files: list[Path], between: str | None, field: str, out: Path, but_last: int, only_last: int
) -> Vocabulary:
    """The tokenizer that an earlier call trained for this folder, or a new one."""
    from manyheads.data.text.documents import all_documents, sources
    from manyheads.data.text.tokenizer_training import train_tokenizer
    from manyheads.data.text.vocabulary import load
    from manyheads.spec.files import replace

    kind, _, count = wanted.partition(":")
    if kind not in ("bpe", "wordpiece") or not DIGITS.fullmatch(count):
        raise UserError(f"--learn {wanted}: write bpe:SIZE or wordpiece:SIZE, such as bpe:8192")
    file = out / "tokenizer.json"
    if file.is_file():  # from a call that was interrupted
        vocabulary = load(str(file), out)
        if vocabulary.size != int(count):
            raise UserError(
                f"{file} has {vocabulary.size} tokens, and --learn asks for {count}; write --tokenizer {word(out)}, or "
                "another folder"
            )
        return vocabulary
    texts = all_documents(sources(files), between=between, field=field, but_last=but_last, only_last=only_last)
    vocabulary = train_tokenizer(kind, texts, int(count), out.name)  # type: ignore[arg-type]  # checked above
    out.mkdir(parents=True, exist_ok=True)
    replace(file, vocabulary.text.encode())
    return vocabulary


@contextmanager
def _progress(quiet: bool) -> Iterator[Progress | None]:
    """A status line with the progress; None where standard error is not a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield None
        return
    start = time.monotonic()
    with console.status("tokenizing") as status:

        def progress(shards: int, text: int, tokens: int) -> None:
            rate = tokens / max(time.monotonic() - start, 1e-9)
            status.update(
                f"{shards} shards, {size(text)} of text, {millions(tokens)} tokens, {millions(rate)} a second"
            )

        yield progress
