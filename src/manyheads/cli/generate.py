"""`manyheads generate`: write text with a trained language model."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manyheads.spec.errors import UserError

from .numbers import parameters, size

if TYPE_CHECKING:
    from manyheads.data.text.vocabulary import Vocabulary
    from manyheads.interop.folder_tokenizer import FolderTokenizer


def generate(
    model: Annotated[
        str, typer.Argument(help="hf:FOLDER, run:FOLDER of a finished run, or the folder of a saved model.")
    ],
    prompt: Annotated[str, typer.Option(help="Beginning of the text.")] = "Once upon a time",
    tokens: Annotated[int, typer.Option(help="Largest number of tokens to write.")] = 200,
    temperature: Annotated[
        float, typer.Option(help="How random the choice of tokens is; 0 always takes the most probable one.")
    ] = 0.8,
    top_k: Annotated[int, typer.Option(help="Sample from this many most probable tokens; 0: from all.")] = 0,
    top_p: Annotated[
        float, typer.Option(help="Sample from the most probable tokens that together have this probability.")
    ] = 1.0,
    samples: Annotated[int, typer.Option(help="Number of texts, written as one batch.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the sampling.")] = 0,
    chat: Annotated[
        bool, typer.Option("--chat", help="The prompt is a message in the chat template of the model's folder.")
    ] = False,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            help="Name, file or folder of a tokenizer. Default: that in the model's folder, or of the run's data."
        ),
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1. Default: a GPU if there is one.")] = None,
    data_root: Annotated[
        Path | None,
        typer.Option(help="Folder of tokenizers and corpora. Default: $MANYHEADS_DATA, or ~/.cache/manyheads."),
    ] = None,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Compute all keys and values at every step, to compare.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Write text token by token, with a cache of keys and values."""
    import torch

    from manyheads.arch.count import params
    from manyheads.data.local_data import data_root as data_folder
    from manyheads.interop.door import with_folder
    from manyheads.models.generate import Sampling, positions
    from manyheads.models.generate import generate as write
    from manyheads.nn.device import pick_device

    if samples < 1:
        raise UserError(f"--samples {samples}: write 1 or more")
    where = pick_device(device)
    loaded, folder, gguf = with_folder(model, where)
    network: Any = loaded
    limit = positions(network.arch)
    words = _words(model, folder, gguf, tokenizer, data_folder(data_root), network.arch.embed.vocab)
    ids = words.encode_chat(prompt) if chat else words.encode(prompt)
    if len(ids) > limit:
        raise UserError(f"the prompt has {len(ids)} tokens and the model takes {limit}; shorten it")
    text = write(
        network,
        torch.tensor([ids] * samples, device=where),
        tokens,
        sampling=Sampling(temperature, top_k, top_p, seed),
        stop=words.ends,
        cached=not no_cache,
    )
    begin = len(ids) if chat else 0
    texts = [words.decode(row[begin:]) for row in text.ids.tolist()]
    count = params(network.arch)
    each = text.seconds / max(1, text.new - 1)
    if as_json:
        summary = {
            "texts": texts,
            "tokens": text.new,
            "cache_bytes": text.cache_bytes,
            "seconds_first": text.first,
            "seconds_each": each,
            "params": count.total,
            "non_embedding": count.non_embedding,
        }
        print(json.dumps(summary))
        return
    print("\n\n".join(texts))
    cache = "no cache" if no_cache else f"a cache of {size(text.cache_bytes)}"
    print(
        f"\n{text.new} tokens, {1000 * each:.1f} ms each, {cache}; parameters: "
        f"{parameters(count.total, count.non_embedding)}",
        file=sys.stderr,
    )


@dataclass(frozen=True)
class OwnWords:
    """The vocabulary of a run's data."""

    vocabulary: Vocabulary

    @property
    def ends(self) -> tuple[int, ...]:
        """The token after a document, if there is one."""
        return tuple(id for role, id in self.vocabulary.roles.items() if role == "end")

    def encode(self, prompt: str) -> list[int]:
        """The ids of a prompt; an empty one begins a document."""
        return self.vocabulary.encode([prompt])[0] or [self.vocabulary.role("end")]

    def encode_chat(self, message: str) -> list[int]:
        """Refused, because only a folder of transformers has a chat template."""
        raise UserError(f"tokenizer {self.vocabulary.name} has no chat template; leave --chat out")

    def decode(self, ids: list[int]) -> str:
        """The text of ids, without special tokens."""
        return self.vocabulary.decode(ids)


def _words(
    model: str, folder: Path, gguf: str | None, name: str | None, root: Path, vocab: int
) -> OwnWords | FolderTokenizer:
    """The tokenizer `name`, or else the one in the model's folder, or else that of the run's data."""
    from manyheads.interop.folder_tokenizer import folder_tokenizer, has_tokenizer

    if name is None and (gguf or has_tokenizer(folder)):
        return folder_tokenizer(folder, gguf)
    run = folder.parent if folder.name == "model" and (folder.parent / "spec.json").is_file() else folder
    return OwnWords(_tokenizer(model, run, name, root, vocab))


def _tokenizer(model: str, folder: Path, name: str | None, root: Path, vocab: int) -> Vocabulary:
    """The tokenizer `name`, or that of the run's data; refused if the model cannot have been trained with it."""
    from manyheads.data.text import corpora
    from manyheads.data.text.vocabulary import load
    from manyheads.spec.serialise import read_json

    spec = read_json(folder / "spec.json") if (folder / "spec.json").is_file() else {}
    task = spec.get("task", {}) if isinstance(spec, dict) else {}
    data = task.get("data") if task.get("is") == "LanguageModel" else None
    if name is None and data is None:
        raise UserError(f"{model} does not say which tokenizer it was trained with; write --tokenizer NAME")
    own = None
    if data is not None:
        try:
            own = corpora.tokenizer(data, root)
        except UserError:
            if name is None:
                raise
    vocabulary = own if name is None else load(name, root)
    assert vocabulary is not None
    stated = own.digest if own is not None else str(task.get("tokenizer") or vocabulary.digest)
    if not vocabulary.digest.startswith(stated):
        raise UserError(
            f"tokenizer {vocabulary.name} ({vocabulary.digest[:12]}) is not the one of the run's data ({stated[:12]}); "
            "omit --tokenizer, or give the right one"
        )
    if vocabulary.size > vocab:
        raise UserError(
            f"tokenizer {vocabulary.name} has {vocabulary.size} ids and the model's vocabulary is {vocab}; give the "
            "tokenizer that it was trained with"
        )
    return vocabulary
