"""`manyheads transplant`: from a folder of transformers to a lean model that transformers loads."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from manyheads.cli import main
from manyheads.data.text.vocabulary import STORIES, load
from manyheads.interop import door
from manyheads.interop.transplanted import transplant
from manyheads.models import store

transformers = pytest.importorskip("transformers", reason="transformers is in the hf extra")
TEXT = "Once upon a time there was a little dog. The dog had a red ball, and the ball was very big. " * 12


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of transformers: a random Llama of 5 layers with grouped queries, and a tokenizer."""
    from manyheads.interop.hf import save_tokenizer

    folder = tmp_path_factory.mktemp("source") / "hf"
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=2048,
        max_position_embeddings=64,
        hidden_size=32,
        num_hidden_layers=5,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=64,
        bos_token_id=1,
        eos_token_id=1,
    )
    model = transformers.LlamaForCausalLM(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    model.save_pretrained(folder)
    save_tokenizer(load(STORIES, folder), door.trained(f"hf:{folder}").arch, folder)
    return folder


@pytest.fixture
def text(tmp_path: Path) -> Path:
    file = tmp_path / "text.txt"
    file.write_text(TEXT)
    return file


def ran(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    """Exit code, output and messages of a command."""
    with pytest.raises(SystemExit) as left:
        main(list(args))
    told = capsys.readouterr()
    return int(left.value.code or 0), told.out, told.err


@pytest.mark.parametrize("how", ["fold", "drop", "auto"])
def test_a_lean_folder_is_written_and_every_step_is_told(
    how: str, llama: Path, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "lean"
    code, told, err = ran(
        capsys, "transplant", f"hf:{llama}", "--depth", "3", "--how", how, "--data", str(text), "--out", str(out)
    )
    assert code == 0, err
    rows = told.splitlines()
    assert [row.split()[0] for row in rows[:2]] == ["step", "as"]
    assert len(rows) == 6  # head, source, two layers less, result, folder
    lean = door.load(str(out))
    assert sum(stage.depth for stage in lean.arch.stages) == 3
    assert sorted(file.name for file in out.iterdir())[:1] == ["arch.json"]
    assert {"transplant.json", "tokenizer.json", "model.safetensors"} <= {file.name for file in out.iterdir()}
    losses = [float(row[46:55]) for row in rows[1:5]]
    assert losses[-1] == pytest.approx(losses[-2], abs=2e-3)  # the folded model costs what the search said


def test_what_was_done_is_done_again_without_data(
    llama: Path, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    asked = ("--depth", "3", "--params", "0.9x", "--data", str(text))
    assert ran(capsys, "transplant", f"hf:{llama}", *asked, "--out", str(first))[0] == 0
    code, _, err = ran(capsys, "transplant", f"hf:{llama}", "--again", str(first), "--out", str(second))
    assert code == 0, err
    one, other = (load_file(folder / "model.safetensors") for folder in (first, second))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    changed = tmp_path / "changed"
    shutil.copytree(llama, changed)
    state = load_file(changed / "model.safetensors")
    state["model.norm.weight"] += 1
    save_file(state, changed / "model.safetensors", metadata={"format": "pt"})
    code, _, err = ran(capsys, "transplant", f"hf:{changed}", "--again", str(first), "--out", str(tmp_path / "third"))
    assert code == 2
    assert "sha256" in err
    assert not (tmp_path / "third").exists()


@pytest.mark.parametrize(("depth", "kind"), [(4, "Llama"), (3, "Llama or Mistral")])
def test_a_uniform_lean_model_is_a_stock_one(
    depth: int, kind: str, llama: Path, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the heads do not divide the width, Llama's configuration is refused by transformers and Mistral's is not."""
    lean, stock = tmp_path / "lean", tmp_path / "stock"
    asked = ("--depth", str(depth), "--how", "fold", "--data", str(text), "--uniform")
    assert ran(capsys, "transplant", f"hf:{llama}", *asked, "--out", str(lean))[0] == 0
    code, told, err = ran(capsys, "export", str(lean), "--to", "hf", "--out", str(stock), "--stock")
    assert code == 0, err
    theirs = transformers.AutoModelForCausalLM.from_pretrained(stock).eval()
    assert type(theirs).__name__.removesuffix("ForCausalLM") in kind.split(" or ")
    assert type(theirs).__name__ in told
    ids = torch.tensor([[5, 9, 700, 41, 8]])
    with torch.no_grad():
        assert torch.allclose(theirs(ids).logits, door.load(str(lean))(ids), atol=1e-4)


def test_parameters_are_cut_to_the_budget(llama: Path, text: Path) -> None:
    made = transplant(f"hf:{llama}", depth=4, params="0.95x", data=text, how="fold", shortlist=None)
    assert made.rows[-1].params <= 0.95 * made.rows[0].params
    assert made.rows[0].layers == 5
    assert {row.what for row in made.rows} >= {"as it is", "cut"}
    assert sum(p.numel() for p in made.model().parameters()) == made.rows[-1].params


@pytest.mark.parametrize(("amount", "words"), [(10, "10 tokens"), (100, "64 tokens"), (130, "128 tokens")])
def test_no_more_tokens_are_used_than_asked_for(amount: int, words: str, llama: Path, text: Path) -> None:
    """A context holds 64."""
    assert transplant(f"hf:{llama}", depth=4, how="drop", data=text, amount=amount, by_stream=True).data.startswith(
        words
    )


def test_images_of_no_class_are_judged_by_the_stream(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from PIL import Image

    from manyheads.arch.families import vit
    from manyheads.models.build import build

    store.save(build(vit(32, 4, 2, 16, 64, image=32, patch=8, classes=3), seed=0), tmp_path / "vit")
    for number in range(6):
        place = tmp_path / "images" / "abc"[number % 3]
        place.mkdir(parents=True, exist_ok=True)
        Image.effect_noise((40, 40), 60 + number).convert("RGB").save(place / f"{number}.png")
    (tmp_path / "some").mkdir()
    Image.effect_noise((40, 40), 60).convert("RGB").save(tmp_path / "some" / "1.png")
    lean = ("transplant", str(tmp_path / "vit"), "--depth", "2")
    code, told, err = ran(capsys, *lean, "--data", str(tmp_path / "images"), "--out", str(tmp_path / "a"), "--json")
    assert code == 0, err
    assert all(row["loss"] is not None for row in json.loads(told)["rows"])
    code, _, err = ran(capsys, *lean, "--data", str(tmp_path / "some"), "--out", str(tmp_path / "b"))
    assert code == 2
    assert "--by-stream" in err
    code, told, err = ran(
        capsys, *lean, "--data", str(tmp_path / "some"), "--by-stream", "--out", str(tmp_path / "b"), "--json"
    )
    assert code == 0, err
    rows = json.loads(told)["rows"]
    assert [row["layers"] for row in rows] == [4, 3, 2, 2]
    assert all(row["loss"] is None for row in rows)
    assert rows[1]["turn"] > 0


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--depth", "3"), "--data"),
        (("--data", "nowhere.txt", "--depth", "3"), "does not exist"),
        (("--data", "TEXT"), "nothing is to be done"),
        (("--data", "TEXT", "--depth", "6"), "5 layers"),
        (("--data", "TEXT", "--depth", "3", "--how", "both"), "auto, fold, drop"),
        (("--data", "TEXT", "--depth", "5", "--params", "0.01x"), "fold or drop more"),
        (("--data", ".", "--depth", "3"), "is a folder"),
        (("--again", "nowhere.json"), "nowhere.json"),
    ],
)
def test_wrong_input_is_a_sentence_and_nothing_is_written(
    args: tuple[str, ...], words: str, llama: Path, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "lean"
    given = [str(text) if arg == "TEXT" else arg for arg in args]
    code, _, err = ran(capsys, "transplant", f"hf:{llama}", *given, "--out", str(out))
    assert code == 2
    assert words in err
    assert not out.exists()


def test_a_tokenizer_of_another_model_is_refused(llama: Path, text: Path, tmp_path: Path) -> None:
    from manyheads.spec.errors import UserError

    small = tmp_path / "small"
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=64
    )
    transformers.LlamaForCausalLM(config).save_pretrained(small)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(llama / name, small / name)
    with pytest.raises(UserError, match="tokenizer of another model"):
        transplant(f"hf:{small}", depth=2, data=text)
