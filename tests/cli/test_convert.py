"""`manyheads convert`, `export`, `generate` and `train --weights` take what transformers and timm wrote."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from manyheads.cli import main
from manyheads.data.text.vocabulary import STORIES, load
from manyheads.interop import door
from manyheads.models import store
from manyheads.runs import Run
from manyheads.train.finetune import weights_digest

transformers = pytest.importorskip("transformers", reason="transformers is in the hf extra")
TEMPLATE = "{% for m in messages %}<sep>{{ m['content'] }}{% endfor %}{% if add_generation_prompt %}<cls>{% endif %}"
BRIEF = ("--steps", "1", "--batch", "2", "--lr", "1e-12", "--set", "recipe.weight_decay=0", "--device", "cpu")


def said(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[str, str]:
    """What a command prints, and what it tells beside."""
    with pytest.raises(SystemExit) as left:
        main(list(args))
    told = capsys.readouterr()
    assert not left.value.code, told.err
    return told.out, told.err


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    """A folder with a random Llama, the tokenizer of the embedded stories, and a chat template."""
    from manyheads.interop.hf import save_tokenizer

    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    config = transformers.LlamaConfig(
        vocab_size=2048, max_position_embeddings=64, **sizes, bos_token_id=1, eos_token_id=1, pad_token_id=0
    )
    model = transformers.LlamaForCausalLM(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    folder = tmp_path / "hf"
    model.save_pretrained(folder)
    save_tokenizer(load(STORIES, tmp_path), door.trained(f"hf:{folder}").arch, folder)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder


def test_what_was_mapped_is_printed_and_the_way_back_too(
    llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, _ = said(capsys, "convert", f"hf:{llama}", "--out", str(tmp_path / "lean"))
    rows = {line[:14].strip(): line[15:] for line in out.splitlines()}
    assert rows["source"] == f"hf:{llama}, LlamaForCausalLM"
    assert rows["mapped"].endswith("parameters")
    assert rows["dtype"] == "float32, as in the files"
    assert len(rows["sha256"]) == 64
    (as_json, _) = said(capsys, "convert", f"hf:{llama}", "--out", str(tmp_path / "again"), "--json")
    assert json.loads(as_json)["sha256"] == rows["sha256"]
    out, err = said(capsys, "export", str(tmp_path / "lean"), "--to", "hf", "--out", str(tmp_path / "back"), "--stock")
    assert out.startswith(f"{tmp_path / 'back'}: LlamaForCausalLM, ")
    assert "AutoModelForCausalLM.from_pretrained(" in err
    before, after = (load_file(folder / "model.safetensors") for folder in (llama, tmp_path / "back"))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    for name in ("tokenizer.json", "chat_template.jinja"):
        assert (tmp_path / "back" / name).read_bytes() == (llama / name).read_bytes()


def greedy(folder: Path, ids: list[int], new: int, **settings: Any) -> list[int]:
    """What transformers generates after `ids`."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    out = model.generate(torch.tensor([ids]), do_sample=False, max_new_tokens=new, **settings)
    return out[0].tolist()


@pytest.mark.parametrize("converted", [False, True])
def test_greedy_text_is_that_of_transformers(
    converted: bool, llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"hf:{llama}"
    if converted:
        name = str(tmp_path / "lean")
        said(capsys, "convert", f"hf:{llama}", "--out", name)
    usual = ("--temperature", "0", "--tokens", "12", "--device", "cpu", "--json")
    words = transformers.AutoTokenizer.from_pretrained(llama)
    out, _ = said(capsys, "generate", name, "--prompt", "Once upon", *usual)
    ids = greedy(llama, words("Once upon")["input_ids"], 12)
    assert json.loads(out)["texts"] == [words.decode(ids, skip_special_tokens=True)]
    out, _ = said(capsys, "generate", name, "--prompt", "Once upon", "--chat", *usual)
    begin = words("<sep>Once upon<cls>", add_special_tokens=False)["input_ids"]
    ids = greedy(llama, begin, 12)
    assert json.loads(out)["texts"] == [words.decode(ids[len(begin) :], skip_special_tokens=True)]


def test_generation_ends_with_any_of_the_folders_end_tokens(llama: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those of generation_config.json, of which there may be several, come before those of config.json."""
    words = transformers.AutoTokenizer.from_pretrained(llama)
    ids = words("Once upon")["input_ids"]
    fifth = greedy(llama, ids, 12)[len(ids) + 4]
    settings = json.loads((llama / "generation_config.json").read_text())
    (llama / "generation_config.json").write_text(json.dumps(settings | {"eos_token_id": [2047, fifth]}))
    asked = ("--prompt", "Once upon", "--temperature", "0", "--tokens", "12", "--device", "cpu", "--json")
    out, _ = said(capsys, "generate", f"hf:{llama}", *asked)
    assert json.loads(out)["tokens"] == len(greedy(llama, ids, 12)) - len(ids) == 5


def test_without_a_chat_template_a_chat_is_refused(llama: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (llama / "chat_template.jinja").unlink()
    with pytest.raises(SystemExit) as left:
        main(["generate", f"hf:{llama}", "--chat", "--device", "cpu"])
    assert left.value.code == 2
    assert "has no chat template; leave --chat out" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["probe", "rank", "plan", "shape"])
def test_commands_that_measure_take_a_folder_and_what_was_converted(
    command: str, llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both names are the same model."""
    said(capsys, "convert", f"hf:{llama}", "--out", str(tmp_path / "lean"))
    (tmp_path / "text.txt").write_text("Once upon a time there was a dog. " * 40)
    measured = ("--tokens", "16", "--text", str(tmp_path / "text.txt"))
    asked = {"probe": measured, "rank": measured, "plan": ("--params", "1x"), "shape": ()}[command]
    texts = [said(capsys, command, name, *asked, "--json") for name in (f"hf:{llama}", str(tmp_path / "lean"))]
    assert not texts[0][1]
    first, second = (json.loads(out) for out, _ in texts)
    if command == "probe":
        kappas = [[site["kappa"] for site in each["sites"]] for each in (first, second)]
        torch.testing.assert_close(*map(torch.tensor, kappas), rtol=1e-3, atol=0)
    assert first.keys() == second.keys()


# ---------------------------------------------------------------------------------------------------------- training
TEXT = ("--set", "task.tokens=32", "--set", "task.test_limit=4", "--set", "recipe.probe_every=0")


def same_weights(run: Run, start: Path, but: tuple[str, ...] = ()) -> None:
    """A rate of 1e-12 moves nothing: the trained model has the weights that it started from."""
    source, now = load_file(start / store.WEIGHTS), load_file(run.model / store.WEIGHTS)
    names = [name for name in now if name not in but]
    assert len(names) > 5
    assert all(torch.allclose(now[name], source[name].float(), rtol=0, atol=1e-8) for name in names)


def test_training_goes_on_from_a_folder_of_transformers(
    llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run states the digest of the converted weights, which stay beside it; the folder converted by hand is the same
    start, so that it is the same run."""
    given = ("--weights", f"hf:{llama}", *TEXT, *BRIEF, "--quiet")
    _, err = said(capsys, "train", f"hf:{llama}", *given, "--out", str(tmp_path / "runs" / "mine"))
    run = Run.open(tmp_path / "runs" / "mine")
    (start,) = (tmp_path / "runs").glob("hf-weights-*")
    assert "mapped" in err
    assert "other words" not in err  # the tokenizer is that of the stories
    assert run.spec.weights == weights_digest(start)
    assert run.spec.label["weights"] == f"hf:{llama}"
    same_weights(run, start)
    said(capsys, "convert", f"hf:{llama}", "--out", str(tmp_path / "lean"))
    assert weights_digest(tmp_path / "lean") == run.spec.weights
    again = ("--weights", str(tmp_path / "lean"), *given[2:], "--out", str(tmp_path / "runs" / "b"))
    said(capsys, "train", *again)
    assert Run.open(tmp_path / "runs" / "b").id == run.id


def test_a_run_that_lost_its_checkpoints_finds_the_converted_weights_again(
    llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from manyheads.train.loop import train

    given = ("--weights", f"hf:{llama}", *TEXT, *BRIEF, "--quiet", "--out", str(tmp_path / "runs" / "mine"))
    said(capsys, "train", f"hf:{llama}", *given)
    made = Run.open(tmp_path / "runs" / "mine")
    shutil.rmtree(tmp_path / "runs" / "mine")
    again = Run.create(tmp_path / "runs" / "again", made.spec)
    shutil.rmtree(llama)
    train(again, device="cpu", progress="none")
    same_weights(again, next((tmp_path / "runs").glob("hf-weights-*")))


def test_a_text_of_another_tokenizer_is_told_and_another_model_is_refused(
    llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = json.loads((llama / "tokenizer.json").read_text())
    vocab = words["model"]["vocab"]
    vocab["a"], vocab["b"] = vocab["b"], vocab["a"]
    (llama / "tokenizer.json").write_text(json.dumps(words))
    given = ("--weights", f"hf:{llama}", *TEXT, *BRIEF, "--quiet", "--out")
    _, err = said(capsys, "train", f"hf:{llama}", *given, str(tmp_path / "runs" / "a"))
    assert "so that the ids mean other words; tokenize the text with it: manyheads tokenize FILES --tokenizer" in err
    with pytest.raises(SystemExit) as left:
        main(["train", "gpt2_tinystories", *given, str(tmp_path / "runs" / "b")])
    assert left.value.code == 2
    assert "start from a model of the same width, depth and vocabulary" in capsys.readouterr().err
    assert not (tmp_path / "runs" / "b").exists()


def test_a_gpt2_keeps_all_of_its_positions_and_ids(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = transformers.GPT2Config(vocab_size=2100, n_embd=32, n_layer=2, n_head=4, n_inner=64, n_positions=64)
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path / "hf")
    out = tmp_path / "runs" / "mine"
    _, err = said(capsys, "train", "--weights", f"hf:{tmp_path / 'hf'}", *TEXT, *BRIEF, "--quiet", "--out", str(out))
    run = Run.open(out)
    assert (run.spec.arch.embed.vocab, run.spec.arch.embed.positions, run.spec.arch.stages[0].tokens) == (2100, 64, 32)
    assert "has 2,048 ids and the weights 2,100; the model keeps all of its rows" in err
    same_weights(run, next((tmp_path / "runs").glob("hf-weights-*")))


def test_images_with_another_number_of_classes_get_a_new_head_which_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    timm = pytest.importorskip("timm", reason="timm is in the vision extra")
    from timm.models._hub import save_for_hf

    settings = {"depth": 2, "embed_dim": 32, "num_heads": 2, "num_classes": 7, "img_size": 32, "patch_size": 16}
    model = timm.create_model("vit_tiny_patch16_224", **settings)
    save_for_hf(model, str(tmp_path / "timm"), model_args=settings, safe_serialization=True)
    out = tmp_path / "runs" / "mine"
    few = ("--data", "fashion_mnist", "--set", "task.limit=20", "--set", "task.test_limit=10")
    asked = ("--weights", f"timm:{tmp_path / 'timm'}", *few, *BRIEF, "--set", "recipe.probe_every=0", "--out", str(out))
    _, err = said(capsys, "train", *asked)
    assert "no such head: head.out.weight, head.out.bias are drawn from the seed" in err
    run = Run.open(out)
    assert run.spec.arch.head.classes == 10
    same_weights(run, next((tmp_path / "runs").glob("timm-weights-*")), but=("head.out.weight", "head.out.bias"))


def test_glue_starts_from_a_folder_of_transformers_as_from_one_of_ours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from manyheads.spec.datasets import glue_set
    from tests.tasks.glue_files import write

    write(tmp_path, glue_set("rte"), train=16, held=8)
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 48}
    config = transformers.BertConfig(vocab_size=2048, max_position_embeddings=24, **sizes)
    transformers.BertForMaskedLM(config).save_pretrained(tmp_path / "bert")
    fields = ("task.tokenizer=stories", "task.tokens=24", "task.segments=true", "task.task=rte")
    asked = [word for field in fields for word in ("--set", field)]
    where = ("--data-root", str(tmp_path), "--out", str(tmp_path / "runs" / "rte"))
    said(capsys, "train", "--weights", f"hf:{tmp_path / 'bert'}", "--task", "glue", *asked, *BRIEF, *where)
    run = Run.open(tmp_path / "runs" / "rte")
    start = next((tmp_path / "runs").glob("bert-weights-*"))
    assert (run.spec.weights, run.spec.task.weights) == ("", weights_digest(start))
    same_weights(
        run, start, but=tuple(f"head.{part}.{kind}" for part in ("hidden", "out") for kind in ("weight", "bias"))
    )


def test_a_file_that_changed_is_another_start(llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ("--weights", f"hf:{llama}", *TEXT, *BRIEF, "--quiet", "--out", str(tmp_path / "runs" / "mine"))
    said(capsys, "train", f"hf:{llama}", *given)
    state = load_file(llama / "model.safetensors")
    save_file(state | {"model.norm.weight": torch.ones(32)}, llama / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(SystemExit) as left:
        main(["train", f"hf:{llama}", *given])
    assert left.value.code == 2
    assert "weights is" in capsys.readouterr().err
    assert len(list((tmp_path / "runs").glob("hf-weights-*"))) == 2


def test_text_given_as_a_path_takes_the_tokenizer_of_the_weights(
    llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where the model is a record without a tokenizer, and an embedded tokenizer has as many ids."""
    words = json.loads((llama / "tokenizer.json").read_text())
    vocab = words["model"]["vocab"]
    vocab["a"], vocab["b"] = vocab["b"], vocab["a"]
    (llama / "tokenizer.json").write_text(json.dumps(words))
    said(capsys, "convert", f"hf:{llama}", "--out", str(tmp_path / "lean"))
    (tmp_path / "novel.txt").write_text("Once upon a time there was a cat. It sat and it sat.\n\n" * 60)
    given = ("--data", str(tmp_path / "novel.txt"), "--data-root", str(tmp_path / "data"), *BRIEF, "--quiet", "--out")
    model = str(tmp_path / "lean" / "arch.json")
    start = ("--weights", f"hf:{llama}")
    _, err = said(capsys, "train", model, *start, *given, str(tmp_path / "runs" / "a"))
    assert "the one in the model's folder" in err
    assert "other words" not in err


def test_text_for_weights_without_a_tokenizer_is_refused_unless_one_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = transformers.GPT2Config(vocab_size=2100, n_embd=32, n_layer=2, n_head=4, n_inner=64, n_positions=64)
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path / "hf")
    (tmp_path / "novel.txt").write_text("Once upon a time there was a cat. It sat and it sat.\n\n" * 60)
    data = ("--data", str(tmp_path / "novel.txt"), "--data-root", str(tmp_path / "data"))
    given = ("--weights", f"hf:{tmp_path / 'hf'}", *data, *BRIEF, "--quiet", "--out", str(tmp_path / "runs" / "a"))
    with pytest.raises(SystemExit) as left:
        main(["train", *given])
    assert left.value.code == 2
    assert "no tokenizer is found for the weights that training starts from" in capsys.readouterr().err
    assert not (tmp_path / "runs" / "a").exists()
    assert not (tmp_path / "data").exists()
    said(capsys, "train", *given, "--tokenizer", "stories")
