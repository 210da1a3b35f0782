"""`manyheads generate`: write text with a trained language model."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manyheads.spec.errors import UserError

from .numbers import parameters, size

if TYPE_CHECKING:
    from manyheads.data.text.vocabulary import Vocabulary


def generate(
    model: Annotated[str, typer.Argument(help="run:FOLDER of a finished run, or the folder of a saved model.")],
    prompt: Annotated[str, typer.Option(help="Beginning of the text.")] = "Once upon a time",
    tokens: Annotated[int, typer.Option(help="Largest number of tokens to write.")] = 200,
    temperature: Annotated[float, typer.Option(help="0 always takes the most probable token.")] = 0.8,
    top_k: Annotated[int, typer.Option(help="Sample from this many most probable tokens; 0: from all.")] = 0,
    top_p: Annotated[
        float, typer.Option(help="Sample from the most probable tokens that together have this probability.")
    ] = 1.0,
    samples: Annotated[int, typer.Option(help="Number of texts, written as one batch.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the sampling.")] = 0,
    tokenizer: Annotated[str | None, typer.Option(help="Default: the tokenizer of the run's data.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1. Default: a GPU if there is one.")] = None,
    data_root: Annotated[Path | None, typer.Option(help="Folder of tokenizers and corpora.")] = None,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Compute all keys and values at every step, to compare.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Write text token by token, with a cache of keys and values."""
    import torch

    from manyheads.arch.count import params
    from manyheads.data.local_data import data_root as data_folder
    from manyheads.models.generate import Sampling, positions
    from manyheads.models.generate import generate as write
    from manyheads.models.store import load
    from manyheads.nn.device import pick_device

    if samples < 1:
        raise UserError(f"--samples {samples}: write 1 or more")
    folder = Path(model.removeprefix("run:"))
    saved = folder / "model" if (folder / "model").is_dir() else folder
    if not (saved / "arch.json").is_file():
        raise UserError(f"{model} holds no trained model; give run:FOLDER of a finished run, or a saved model's folder")
    where = pick_device(device)
    network: Any = load(saved, device=where)
    limit = positions(network.arch)
    vocabulary = _tokenizer(folder, tokenizer, data_folder(data_root), network.arch.embed.vocab)
    ids = vocabulary.encode([prompt])[0] or [vocabulary.role("end")]  # an empty prompt begins a document
    if len(ids) > limit:
        raise UserError(f"the prompt has {len(ids)} tokens and the model takes {limit}; shorten it")
    text = write(
        network,
        torch.tensor([ids] * samples, device=where),
        tokens,
        sampling=Sampling(temperature, top_k, top_p, seed),
        stop=vocabulary.roles.get("end"),
        cached=not no_cache,
    )
    texts = [vocabulary.decode(row) for row in text.ids.tolist()]
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


def _tokenizer(folder: Path, name: str | None, root: Path, vocab: int) -> Vocabulary:
    """The tokenizer `name`, or that of the run's data; refused if the model cannot have been trained with it."""
    from manyheads.data.text import corpora
    from manyheads.data.text.vocabulary import load
    from manyheads.spec.serialise import read_json

    spec = read_json(folder / "spec.json") if (folder / "spec.json").is_file() else {}
    task = spec.get("task", {}) if isinstance(spec, dict) else {}
    data = task.get("data") if task.get("is") == "LanguageModel" else None
    if name is None and data is None:
        raise UserError(f"{folder} does not say which tokenizer it was trained with; write --tokenizer NAME")
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
