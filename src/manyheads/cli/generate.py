"""`manyheads generate`: a story out of a trained language model."""

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
    prompt: Annotated[str, typer.Option(help="How the text begins.")] = "Once upon a time",
    tokens: Annotated[int, typer.Option(help="Tokens to write at most.")] = 200,
    temperature: Annotated[float, typer.Option(help="0 takes the likeliest token.")] = 0.8,
    top_k: Annotated[int, typer.Option(help="Draw from so many likeliest tokens; 0: from all.")] = 0,
    top_p: Annotated[float, typer.Option(help="Draw from the likeliest that have this chance together.")] = 1.0,
    samples: Annotated[int, typer.Option(help="Texts to write, at once.")] = 1,
    seed: Annotated[int, typer.Option(help="Another seed writes another text.")] = 0,
    tokenizer: Annotated[str | None, typer.Option(help="Default: that of the run's data.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1. Default: a GPU if there is one.")] = None,
    data_root: Annotated[Path | None, typer.Option(help="Where tokenizers and corpora lie.")] = None,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Without a cache of keys and values, to compare.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Write text, token by token, with a cache of keys and values."""
    import torch

    from manyheads.arch.count import params
    from manyheads.data.local_data import data_root as place
    from manyheads.models.generate import Sampling, positions
    from manyheads.models.generate import generate as written
    from manyheads.models.store import load

    if samples < 1:
        raise UserError(f"--samples {samples}: write 1 or more")
    folder = Path(model.removeprefix("run:"))
    kept = folder / "model" if (folder / "model").is_dir() else folder
    if not (kept / "arch.json").is_file():
        raise UserError(f"{model} holds no trained model; give run:FOLDER of a finished run, or a saved model's folder")
    where = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    built: Any = load(kept, device=where)
    limit = positions(built.arch)
    words = _tokenizer(folder, tokenizer, place(data_root), built.arch.embed.vocab)
    ids = words.encode([prompt])[0] or [words.role("end")]  # nothing given: begin as a document does
    if len(ids) > limit:
        raise UserError(f"the prompt has {len(ids)} tokens and the model looks at {limit}; shorten it")
    begun = torch.tensor([ids] * samples, device=where)
    how = Sampling(temperature, top_k, top_p, seed)
    found = written(built, begun, tokens, sampling=how, stop=words.roles.get("end"), cached=not no_cache)
    texts = [words.decode(row) for row in found.ids.tolist()]
    count = params(built.arch)
    each = found.seconds / max(1, found.new - 1)
    if as_json:
        print(
            json.dumps(
                {
                    "texts": texts,
                    "tokens": found.new,
                    "cache_bytes": found.cache_bytes,
                    "seconds_first": found.first,
                    "seconds_each": each,
                    "params": count.total,
                    "non_embedding": count.non_embedding,
                }
            )
        )
        return
    print("\n\n".join(texts))
    cache = "no cache" if no_cache else f"a cache of {size(found.cache_bytes)}"
    print(
        f"\n{found.new} tokens, {1000 * each:.1f} ms each, {cache}; parameters: "
        f"{parameters(count.total, count.non_embedding)}",
        file=sys.stderr,
    )


def _tokenizer(folder: Path, given: str | None, root: Path, vocab: int) -> Vocabulary:
    """The tokenizer of the run's data, or the one that was given, if the model can have been trained with it."""
    from manyheads.data.text import corpora
    from manyheads.data.text.vocabulary import load
    from manyheads.spec.serialise import read_json

    spec = read_json(folder / "spec.json") if (folder / "spec.json").is_file() else {}
    task = spec.get("task", {}) if isinstance(spec, dict) else {}
    data = task.get("data") if task.get("is") == "LanguageModel" else None
    if given is None and data is None:
        raise UserError(f"{folder} does not say which tokenizer it was trained with; write --tokenizer NAME")
    own = None
    if data is not None:
        try:
            own = corpora.tokenizer(data, root)
        except UserError:
            if given is None:
                raise
    words = own if given is None else load(given, root)
    assert words is not None
    stated = own.digest if own is not None else str(task.get("tokenizer") or words.digest)
    if not words.digest.startswith(stated):
        raise UserError(
            f"tokenizer {words.name} ({words.digest[:12]}) is not the one of the run's data ({stated[:12]}); "
            "leave --tokenizer out, or give the right one"
        )
    if words.size > vocab:
        raise UserError(
            f"tokenizer {words.name} has {words.size} ids and the model's vocabulary is {vocab}; give the one "
            "that it was trained with"
        )
    return words
