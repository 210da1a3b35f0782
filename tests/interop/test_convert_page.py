"""The commands and the Python of docs/convert.md run as they are printed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import torch

from manyheads.cli import main
from manyheads.data.text.vocabulary import STORIES, load

transformers = pytest.importorskip("transformers", reason="transformers is in the hf extra")
PAGE = (Path(__file__).resolve().parents[2] / "docs" / "convert.md").read_text()
BLOCKS = re.findall(r"^```(console|python)\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the folder `tiny` that the page speaks of."""
    from manyheads.interop.door import trained
    from manyheads.interop.hf import save_tokenizer

    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=2048, n_embd=32, n_layer=2, n_head=4, n_positions=64, n_inner=64, bos_token_id=1, eos_token_id=1
    )
    transformers.GPT2LMHeadModel(config).save_pretrained("tiny")
    save_tokenizer(load(STORIES, tmp_path), trained("hf:tiny").arch, "tiny")
    return tmp_path


def settled(text: str) -> list[str]:
    """Lines without trailing blanks and without the digest of random weights."""
    return [re.sub(r"\b[0-9a-f]{64}\b", "SHA256", line).rstrip() for line in text.strip().splitlines()]


def test_every_block_runs_and_prints_what_is_shown(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In order, as a reader types them; a block with output shows all of it."""
    assert len(BLOCKS) == 5
    for language, body in BLOCKS:
        if language == "python":
            exec(compile(body, "docs/convert.md", "exec"), {})
            assert capsys.readouterr().out == "84,736 parameters of GPT2LMHeadModel\n"
            continue
        lines = body.splitlines()
        commands = [line.removeprefix("$ manyheads ") for line in lines if line.startswith("$ ")]
        shown = [line for line in lines if not line.startswith("$ ")]
        capsys.readouterr()
        for command in commands:
            with pytest.raises(SystemExit) as left:
                main(shlex.split(command))
            assert not left.value.code, f"{command}: {capsys.readouterr().err}"
        told = capsys.readouterr()
        if shown:
            assert settled(told.out + told.err) == [line.rstrip() for line in shown]
    assert (place / "runs" / "further" / "result.json").is_file()
    assert (place / "again" / "tokenizer.json").is_file()
