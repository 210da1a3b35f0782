"""`tokenize` and `generate`: from files to shards, from a run to a story; mistakes are sentences."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from manyheads.arch.count import kv_bytes, params
from manyheads.arch.families import crammed_bert, gpt2
from manyheads.cli.generate import generate
from manyheads.cli.tokenize import tokenize
from manyheads.data.text.corpora import corpus, tokenizer
from manyheads.models.build import build
from manyheads.models.store import save
from manyheads.runs import Run
from manyheads.spec.errors import UserError
from manyheads.tasks import LanguageModel, to_dict
from manyheads.train.loop import train
from tests.specs import run_spec

app = typer.Typer()
app.command()(tokenize)
app.command()(generate)
ARCH = gpt2(16, 2, 2, 8, 32, vocab=2048, tokens=32, positions=32)


def call(*words: object) -> str:
    """What a command prints; what goes wrong is raised."""
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False).stdout


@pytest.fixture
def stories(tmp_path: Path) -> Path:
    """A file of short documents."""
    path = tmp_path / "stories.txt"
    path.write_text(
        "\n<|endoftext|>\n".join(f"Tom has {i} red balls. He is happy." for i in range(60)), encoding="utf-8"
    )
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that is finished, if not well trained."""
    folder = tmp_path_factory.mktemp("runs") / "a"
    recipe = {"batch": 4, "basis": {"kind": "steps", "amount": 2}}
    spec = run_spec(ARCH, to_dict(LanguageModel(tokens=32, test_limit=4)), recipe, 0)
    train(Run.create(folder, spec), device="cpu", progress="none")
    return folder


def test_files_become_a_corpus_with_splits(stories: Path, tmp_path: Path) -> None:
    out = tmp_path / "root" / "toms"
    usual = ["tokenize", stories, "--out", out, "--between", "<|endoftext|>", "--workers", 1, "--data-root", out.parent]
    text = call(*usual, "--tokenizer", "stories")
    assert "60 documents" in text
    assert "train on it: manyheads train gpt2_tinystories --data shards:toms --set task.held=0.1\n" in text
    found = json.loads(call(*usual, "--tokenizer", "stories", "--split", "valid", "--json"))
    assert (found["documents"], found["vocab"], found["folder"]) == (60, 2048, str(out / "valid"))
    read = corpus("shards:toms", tmp_path / "root")
    assert len(read.train.tokens) == len(read.held.tokens) == found["tokens"]
    lines = call(*usual[:2], "--out", tmp_path / "lines", *usual[4:], "--tokenizer", "bytes", "--separator", "\\n")
    assert f"--data-root {tmp_path} --data shards:lines" in lines
    assert corpus("shards:lines", tmp_path, held=0.1).train.manifest.separator == "\n"


def test_a_tokenizer_of_ones_own_is_trained_once_and_used_for_both_splits(stories: Path, tmp_path: Path) -> None:
    usual = ["tokenize", stories, "--out", tmp_path / "own", "--between", "<|endoftext|>", "--workers", 1]
    call(*usual, "--learn", "bpe:290")
    kept = (tmp_path / "own" / "tokenizer.json").read_bytes()
    call(*usual, "--learn", "bpe:290")
    call(*usual, "--tokenizer", tmp_path / "own", "--split", "valid")
    assert (tmp_path / "own" / "tokenizer.json").read_bytes() == kept
    assert corpus("shards:own", tmp_path).train.manifest.vocab == 290
    words = tokenizer("shards:own", tmp_path)
    assert words.decode(words.encode(["Tom has 5 red balls."])[0]) == "Tom has 5 red balls."
    with pytest.raises(UserError, match="has 290 tokens, and --learn asks for 300"):
        call(*usual, "--learn", "bpe:300")


def test_a_choice_is_made_on_documents_that_nothing_else_reads(tmp_path: Path) -> None:
    path, out = tmp_path / "a.txt", tmp_path / "own"
    path.write_text("\n\n".join([*(f"Tom has {i} red balls. He is happy." for i in range(60)), "zqzqzqzq " * 40]))
    usual = ["tokenize", path, "--out", out, "--between", "blank", "--workers", 1]
    call(*usual, "--learn", "bpe:290", "--but-last", 1)
    call(*usual, "--tokenizer", out, "--split", "choose", "--only-last", 1)
    words = tokenizer("shards:own", tmp_path)
    assert len(words.encode(["zqzq"])[0]) == 4  # the tokenizer was not trained on the document that is held out
    task = LanguageModel("shards:own", tokens=8, vocab=290, held_split="choose")
    read = corpus(task.data, tmp_path, split=task.held_split)
    assert (read.train.manifest.documents, read.held.manifest.documents) == (60, 1)
    with pytest.raises(UserError, match="has no folder valid"):
        corpus(task.data, tmp_path)


def test_wrong_words_are_told(stories: Path, tmp_path: Path) -> None:
    for words, told in [
        (["--tokenizer", "bytes", "--learn", "bpe:300"], "either --tokenizer NAME or --learn"),
        ([], "either --tokenizer"),
        (["--tokenizer", "bytes", "--split", "../x"], "write train, valid, or letters"),
        (["--learn", "bpe"], "bpe:SIZE"),
        (["--tokenizer", "bytes"], "does not say where a document ends"),
        (["--tokenizer", "gpt3"], "did you mean gpt2"),
    ]:
        with pytest.raises(UserError, match=told):
            call("tokenize", stories, "--out", tmp_path / "x", *words)


def test_a_story_is_written_and_its_cache_counted(run: Path) -> None:
    usual = ["generate", f"run:{run}", "--prompt", "Once upon a time", "--tokens", 20, "--device", "cpu"]
    text = call(*usual)
    assert text.startswith("Once upon a time")
    assert call(*usual) == text
    assert call(*usual, "--seed", 1) != text
    found = json.loads(call(*usual, "--samples", 3, "--json"))
    assert len(found["texts"]) == 3
    assert found["tokens"] <= 20
    assert found["cache_bytes"] == 3 * 24 * kv_bytes(ARCH, 4)  # four tokens of prompt and twenty
    assert (found["params"], found["non_embedding"]) == (params(ARCH).total, params(ARCH).non_embedding)
    plain = json.loads(call(*usual, "--samples", 3, "--json", "--no-cache"))
    assert (plain["texts"], plain["cache_bytes"]) == (found["texts"], 0)
    assert call("generate", run / "model", "--tokenizer", "stories", "--tokens", 3, "--prompt", "", "--device", "cpu")


def test_what_cannot_be_generated_is_told(run: Path, tmp_path: Path) -> None:
    save(build(crammed_bert(16, 1, 2, 8, 24, vocab=2048, tokens=16), seed=0), tmp_path / "bert")
    save(build(gpt2(16, 1, 2, 8, 24, vocab=90, tokens=16, positions=16), seed=0), tmp_path / "small")
    for words, told in [
        ([f"run:{tmp_path}"], "holds no trained model"),
        ([tmp_path / "bert", "--tokenizer", "stories"], "writes no text"),
        ([tmp_path / "small"], "does not say which tokenizer"),
        ([f"run:{run}", "--tokenizer", "bytes"], "is not the one of"),
        ([tmp_path / "small", "--tokenizer", "bytes"], "has 261 ids and the model's vocabulary is 90"),
        ([f"run:{run}", "--prompt", "word " * 50], "tokens and the model takes 32"),
        ([f"run:{run}", "--samples", 0], "write 1 or more"),
        ([f"run:{run}", "--top-p", 2], "top_p 2"),
    ]:
        with pytest.raises(UserError, match=told):
            call("generate", *words, "--device", "cpu")
