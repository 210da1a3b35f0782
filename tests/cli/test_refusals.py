"""Files, numbers and devices that cannot be used: one sentence and exit code 2, never a traceback."""

from __future__ import annotations

import json
import logging
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from manyheads.arch import zoo
from manyheads.arch.families import gpt2
from manyheads.cli import main
from manyheads.spec import serialise as record

GPT2 = {"model_type": "gpt2", "n_embd": 32, "n_layer": 1, "n_head": 2, "vocab_size": 50, "n_positions": 16}
PLAN = ("plan", "vit_ti", "--params", "0.5x")
TRAIN = ("train", "demo:lean", "--dry-run")
INDEX = "model.safetensors.index.json"


@pytest.fixture
def refusal(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """The sentence with which a command is refused."""

    def refused(*args: str) -> str:
        with pytest.raises(SystemExit) as left:
            main(list(args))
        out, err = capsys.readouterr()
        assert left.value.code == 2, (out, err)
        assert "Traceback" not in err
        sentence = err.splitlines()[-1]
        assert sentence.startswith("manyheads: ")
        assert len(sentence) < 800
        return sentence

    return refused


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own as the working folder, without a way to the hub."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(logging, "raiseExceptions", False)  # transformers may log to the stream of an earlier test
    return tmp_path


def written(change: Callable[[dict[str, Any]], str]) -> str:
    """A record of a model as text, changed."""
    return change(record.to_dict(zoo.get("vit_ti")))


ARCHES = {
    "digits": (
        written(lambda data: json.dumps(data).replace('"depth": 12', '"depth": ' + "1" * 5000)),
        "a whole number of 5,000 digits",
    ),
    "deep": ('{"a":' * 900 + "1" + "}" * 900, "nested more than 100 deep"),
    "deep part": (
        written(
            lambda data: json.dumps(data | {"stages": []}).replace('"stages": []', '"stages": ' + "[" * 900 + "]" * 900)
        ),
        "nested more than 100 deep",
    ),
    "large": (
        written(lambda data: json.dumps(data).replace('"depth": 12', '"depth": 1' + "0" * 20)),
        r"stages[0].depth is 100000000000000000000; write a whole number below 10^15",
    ),
}


@pytest.mark.parametrize("case", ARCHES)
@pytest.mark.parametrize("command", ["shape", "plan", "train", "probe"])
def test_a_record_that_cannot_be_walked(case: str, command: str, refusal: Callable[..., str]) -> None:
    text, says = ARCHES[case]
    Path("arch.json").write_text(text)
    more = {"plan": ("--params", "0.5x"), "train": ("--dry-run",)}.get(command, ())
    assert says in refusal(command, "arch.json", *more)


@pytest.mark.parametrize("random", [(), ("--random",)])
@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"config.json": "{no"}, "config.json is not JSON"),
        ({"config.json": "[1, 2]"}, "config.json holds no JSON object"),
        ({"config.json": '{"model_type": ' + "1" * 5000 + "}"}, "5,000 digits"),
        ({"config.json": json.dumps(GPT2 | {"n_embd": "wide"})}, "transformers cannot load 'model'"),
        (
            {
                "config.json": json.dumps(GPT2 | {"auto_map": None}),
                "adapter_config.json": json.dumps({"peft_type": "LORA", "base_model_name_or_path": "x"}),
            },
            "transformers cannot load 'model'",
        ),
    ],
)
def test_a_folder_whose_configuration_is_wrong(
    files: dict[str, str], says: str, random: tuple[str, ...], refusal: Callable[..., str]
) -> None:
    pytest.importorskip("transformers", reason="transformers is in the hf extra")
    put("model", files)
    assert says in refusal("probe", "hf:model", *random)


@pytest.mark.parametrize(
    "files",
    [
        {"model.safetensors": pickle.dumps({"a": 1})},
        {"model.safetensors": b""},
        {INDEX: b'{"metadata": {}, "weight_map": {"wte.weight": "../outside.safetensors"}}'},
        {INDEX: b'{"metadata": {}, "weight_map": {"wte.weight": "../missing.safetensors"}}'},
        {INDEX: b'{"metadata": {}, "weight_map": ["wte.weight"]}'},
        {INDEX: b"[]"},
        {},
    ],
)
def test_a_folder_whose_weights_are_none(files: dict[str, bytes], refusal: Callable[..., str]) -> None:
    pytest.importorskip("transformers", reason="transformers is in the hf extra")
    Path("outside.safetensors").write_bytes(pickle.dumps({"a": 1}))
    put("model", {"config.json": json.dumps(GPT2)} | files)
    assert "transformers cannot load 'model'" in refusal("probe", "hf:model")


def put(folder: str, files: dict[str, Any]) -> None:
    """A folder with these files."""
    Path(folder).mkdir()
    for name, content in files.items():
        Path(folder, name).write_bytes(content if isinstance(content, bytes) else content.encode())


@pytest.mark.parametrize("device", ["1", "meta", "banana", "cuda:99", "mps", "privateuseone", "cpu:" + "9" * 20, ""])
@pytest.mark.parametrize("command", ["generate", "rank", "probe", "train", "plan", "run"])
def test_a_device_that_is_none(command: str, device: str, refusal: Callable[..., str]) -> None:
    from manyheads.models import store
    from manyheads.models.build import build

    model = gpt2(16, 1, 2, 8, 32, vocab=2048, tokens=16, positions=16)
    store.save(build(model, seed=0), "lm")
    more = {
        "generate": ("lm", "--tokenizer", "stories", "--tokens", "2"),
        "rank": ("lm", "--batch", "4"),
        "probe": ("lm",),
        "train": ("lm/arch.json", "--task", "languagemodel", "--set", "task.tokens=16", "--steps", "1", "--out", "run"),
        "plan": ("lm/arch.json", "--latency", "5ms"),
        "run": ("demo", "--scale", "smoke"),
    }[command]
    assert "device " in refusal(command, *more, "--device", device)


NUMBERS = {
    "set": ((*TRAIN, "--set", "recipe.lr=1" + "0" * 400), "a whole number of 401 digits"),
    "set long": ((*TRAIN, "--set", "recipe.lr=1" + "0" * 5000), "a whole number of 5,001 digits"),
    "set deep": ((*TRAIN, "--set", "recipe.lr=" + "[" * 5000), "nested more than 100 deep"),
    "set float": ((*TRAIN, "--set", "recipe.lr=1e400"), "the number 1e400"),
    "set task": (("train", "vit_ti", "--dry-run", "--set", "task.limit=1" + "0" * 20), "Images.limit is 1000"),
    "lr": ((*TRAIN, "--lr", "1" + "0" * 400), "recipe.lr is inf"),
    "batch": ((*TRAIN, "--batch", "9" * 20), "recipe.batch is 99999999999999999999; write a whole number below 10^15"),
    "steps": ((*TRAIN, "--steps", "9" * 400), "recipe.basis.amount is a number of about 400 digits"),
    "seed": ((*TRAIN[:2], "--steps", "1", "--seed", "9" * 30), "below 2^63"),
    "recipe": ((*TRAIN, "--recipe", "x" * 5000), "there is no such file"),
    "task": ((*TRAIN, "--task", "x/" * 3000), "there is no such task"),
    "plan batch": ((*PLAN, "--batch", "1" + "0" * 30), "batch is 1000"),
    "plan batch fits": ((*PLAN, "--batch", "1" + "0" * 14), "training memory of the largest design that is searched"),
    "plan image": ((*PLAN, "--image", str(2**63)), "image is 9223372036854775808; write a whole number below 10^15"),
    "plan image fits": ((*PLAN, "--image", str(16 * 10**7)), "forward FLOPs of the largest design"),
    "plan dims": ((*PLAN, "--head-dims", "9223372036854775808,8"), "head_dims[0] is 9223372036854775808"),
    "plan dims fit": ((*PLAN, "--head-dims", "1" + "0" * 13 + ",8", "--heads", "4,8"), "of the largest design"),
    "plan heads": ((*PLAN, "--heads", "1,1" + "0" * 14), "at most 10,000 are searched"),
    "plan heads long": ((*PLAN, "--heads", "1," + "9" * 5000), "write a whole number"),
    "plan kv": ((*PLAN, "--kv-heads", "9" * 20), "kv_heads is 99999999999999999999"),
    "plan kv raised": ((*PLAN, "--kv-heads", "²"), "kv_heads is '²'"),
    "plan also long": ((*PLAN, "--also", "9" * 5000 + "x8"), "no model is called"),
    "plan top": ((*PLAN, "--top", "0"), "--top 0: write a whole number from 1 up"),
    "plan measure": ((*PLAN, "--measure", "-1"), "--measure -1"),
    "rank batch": (("rank", "vit_ti", "--batch", "2"), "--batch 2: write 4 samples or more"),
    "rank head_dim": (("rank", "vit_ti", "--head-dim", "0"), "--head-dim 0: write whole numbers from 1 up"),
    "learn raised": (("tokenize", "file", "--out", "x", "--learn", "bpe:²"), "write bpe:SIZE"),
    "learn long": (("tokenize", "file", "--out", "x", "--learn", "bpe:" + "9" * 5000), "write bpe:SIZE"),
    "plan also": ((*PLAN, "--also", "9" * 20 + "x8"), "depth is 99999999999999999999"),
    "shape": (("shape", "vit_ti", "--heads", "9" * 20), "heads is 99999999999999999999"),
    "probe seed": (("probe", "vit_ti", "--seed", "9" * 30), "--seed is 9999"),
    "probe batch": (("probe", "vit_ti", "--batch", "9" * 30), "--batch"),
    "probe tokens": (("probe", "gpt2_tinystories", "--tokens", "9" * 30), "--tokens"),
    "data": (("data", "listops", "--train", "9" * 30), "--train is 9999"),
    "theory": (("theory", "--tokens", "9" * 20, "--head-dim", "2"), "--tokens is 9999"),
    "theory samples": (("theory", "--tokens", "4", "--head-dim", "2", "--samples", "9" * 20), "--samples is 9999"),
    "data set": (("data", "listops", "--set", "depth=" + "[" * 5000), "--set"),
}


@pytest.mark.parametrize("case", NUMBERS)
def test_a_number_or_a_name_that_is_too_long(case: str, refusal: Callable[..., str]) -> None:
    args, says = NUMBERS[case]
    assert says in refusal(*args)


@pytest.mark.parametrize(
    "args",
    [
        (*PLAN, "--save", "file/x.json"),
        (*PLAN, "--save", "missing/x.json"),
        (*PLAN, "--save", ""),
        (*PLAN, "--save", "/"),
        (*PLAN, "--save", "pipe"),
        ("report", "runs", "--out", "pipe"),
        (*PLAN, "--save", "x" * 5000),
        (*PLAN, "--arms", "file/arms"),
        (*PLAN, "--emit", "timm", "--to", "file/timm"),
        (*PLAN, "--plot", "x" * 300 + ".svg"),
        ("shape", "vit_ti", "--save", "file/x.json"),
        ("report", "loop"),
        ("report", "x" * 5000),
        ("runs", "loop"),
        ("runs", "x" * 5000),
        ("probe", "hf:" + "x/" * 3000),
        ("probe", "loop"),
        ("shape", "x/" * 3000),
        ("shape", "run:" + "x/" * 3000),
        ("plan", "run:" + "x" * 5000, "--params", "0.5x"),
        (*PLAN, "--probe", "x" * 5000),
        ("generate", "x" * 5000),
        ("tokenize", "x" * 5000, "--out", "shards"),
        ("train", "--resume", "x" * 5000),
        ("train", "--resume", "loop"),
    ],
    ids=lambda args: " ".join(args)[:60],
)
def test_a_path_that_cannot_be_used(args: tuple[str, ...], refusal: Callable[..., str]) -> None:
    Path("file").write_text("no folder")
    os.symlink("loop", "loop")
    os.mkfifo("pipe")
    assert refusal(*args)
