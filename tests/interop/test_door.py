"""Trained models through the door: what transformers and timm wrote is read exactly, reported, and written back."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import manyheads as mh
from manyheads.interop import door
from manyheads.models import store
from manyheads.spec.errors import UserError

transformers = pytest.importorskip("transformers", reason="transformers is in the hf extra")
SIZES: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
TEXT = SIZES | {"vocab_size": 50, "max_position_embeddings": 32}


def model(kind: str, **settings: Any) -> Any:
    """A tiny model of transformers, every tensor random."""
    made = getattr(transformers, kind)
    own = SIZES | {"image_size": 32, "patch_size": 8, "num_labels": 5} if kind.startswith("ViT") else TEXT
    torch.manual_seed(0)
    result = made(made.config_class(**(own | {"tie_word_embeddings": True} | settings)))
    for parameter in result.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return result.eval()


def inputs(kind: str) -> torch.Tensor:
    dice = torch.Generator().manual_seed(1)
    if kind.startswith("ViT"):
        return torch.randn(2, 3, 32, 32, generator=dice)
    return torch.randint(50, (2, 16), generator=dice)


KINDS = {
    "LlamaForCausalLM": {"num_key_value_heads": 2, "tie_word_embeddings": False},
    "Qwen2ForCausalLM": {"num_key_value_heads": 2},
    "GPT2LMHeadModel": {"n_inner": 64, "bos_token_id": 3, "eos_token_id": 3},
    "BertForMaskedLM": {},
    "BertForSequenceClassification": {"num_labels": 3},
    "ViTForImageClassification": {},
}
LLAMA = "LlamaForCausalLM"


def close(ours: torch.nn.Module, theirs: Any, kind: str) -> None:
    with torch.no_grad():
        torch.testing.assert_close(ours(inputs(kind)), theirs(inputs(kind)).logits, rtol=2e-6, atol=4e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_of_transformers_goes_through_the_door_and_back(kind: str, tmp_path: Path) -> None:
    theirs = model(kind, **KINDS[kind])
    theirs.save_pretrained(tmp_path / "hf")
    report = mh.convert(f"hf:{tmp_path / 'hf'}", tmp_path / "lean")
    assert report.parameters == sum(p.numel() for p in theirs.parameters())
    assert report.kind == kind
    assert report.sha256 == door.foreign_source.digest(tmp_path / "hf" / "model.safetensors")
    ours = store.load(tmp_path / "lean").eval()
    close(ours, theirs, kind)
    close(mh.load(f"hf:{tmp_path / 'hf'}"), theirs, kind)
    mh.export(str(tmp_path / "lean"), tmp_path / "back", stock=True)
    again = getattr(transformers, kind).from_pretrained(tmp_path / "back")
    state = theirs.state_dict()
    assert state.keys() == again.state_dict().keys()
    assert all(torch.equal(tensor, state[name]) for name, tensor in again.state_dict().items())
    first, last = (json.loads((tmp_path / place / "config.json").read_text()) for place in ("hf", "back"))
    for key in door.KEPT:
        assert first.get(key) == last.get(key), key


def test_a_folder_for_transformers_without_a_stock_class(tmp_path: Path) -> None:
    theirs = model(LLAMA)
    theirs.save_pretrained(tmp_path / "hf")
    mh.export(f"hf:{tmp_path / 'hf'}", tmp_path / "ours")
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "ours").eval()
    close(mh.load(f"hf:{tmp_path / 'ours'}"), theirs, LLAMA)
    with torch.no_grad():
        torch.testing.assert_close(loaded(inputs(LLAMA)).logits, theirs(inputs(LLAMA)).logits, rtol=2e-6, atol=4e-6)


TIMM = {
    "vit_tiny_patch16_224": {"depth": 2, "num_classes": 7, "img_size": 64},
    "deit_tiny_distilled_patch16_224": {"depth": 2, "img_size": 64},
    "xcit_nano_12_p16_224": {"depth": 2, "img_size": 64, "embed_dim": 32, "num_heads": 2, "tokens_norm": True},
    "tnt_s_patch16_224": {"depth": 2, "img_size": 64},
}


@pytest.mark.parametrize("name", TIMM)
def test_a_folder_of_timm_goes_through_the_door_and_back(name: str, tmp_path: Path) -> None:
    """The class tokens of `stock` are timm's own: every tensor is equal, and no manyheads is needed."""
    timm = pytest.importorskip("timm", reason="timm is in the vision extra")
    from timm.models._hub import save_for_hf

    torch.manual_seed(0)
    theirs = timm.create_model(name, **TIMM[name]).eval()
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    save_for_hf(theirs, str(tmp_path / "timm"), model_args=TIMM[name], safe_serialization=True)
    report = mh.convert(f"timm:{tmp_path / 'timm'}", tmp_path / "lean")
    assert report.parameters == sum(p.numel() for p in theirs.parameters())
    pixels = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    ours = mh.load(str(tmp_path / "lean"))
    with torch.no_grad():
        logits = ours(pixels)
        logits = logits.mean(0) if logits.ndim == 3 else logits
        torch.testing.assert_close(logits, theirs(pixels), rtol=1e-5, atol=1e-5)
    mh.export(str(tmp_path / "lean"), tmp_path / "stock", to="timm", stock=True)
    again = timm.create_model(f"local-dir:{tmp_path / 'stock'}", pretrained=True)
    assert type(again) is type(theirs)
    state = again.state_dict()
    assert all(torch.equal(tensor, state[key]) for key, tensor in theirs.state_dict().items())
    mh.export(str(tmp_path / "lean"), tmp_path / "plain", to="timm")
    plain = timm.create_model(f"local-dir:{tmp_path / 'plain'}", pretrained=True).eval()
    with torch.no_grad():
        torch.testing.assert_close(plain(pixels), theirs(pixels), rtol=1e-5, atol=1e-5)
    assert mh.convert(f"timm:{tmp_path / 'plain'}", tmp_path / "third").parameters == report.parameters


# ------------------------------------------------------------------------------------------- files as people have them
@pytest.fixture
def llama(tmp_path: Path) -> tuple[Path, Any]:
    """A folder with a tied Llama, and the model."""
    theirs = model(LLAMA, num_key_value_heads=2)
    theirs.save_pretrained(tmp_path / "hf")
    return tmp_path / "hf", theirs


def rewrite(folder: Path, change: Callable[[dict[str, torch.Tensor]], Any]) -> None:
    """Change the tensors in a folder's file."""
    state = load_file(folder / "model.safetensors")
    change(state)
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})


def test_shards_are_one_model_and_their_digest_is_what_sha256sum_prints(
    llama: tuple[Path, Any], tmp_path: Path
) -> None:
    theirs = llama[1]
    theirs.save_pretrained(tmp_path / "shards", max_shard_size="20KB")
    files = sorted((tmp_path / "shards").glob("*.safetensors"))
    assert len(files) > 1
    report = mh.convert(f"hf:{tmp_path / 'shards'}", tmp_path / "lean")
    printed = subprocess.run(
        ["sha256sum", *(file.name for file in files)], cwd=tmp_path / "shards", capture_output=True
    )
    twice = subprocess.run(["sha256sum"], input=printed.stdout, capture_output=True).stdout.decode()
    assert report.sha256 == twice.split()[0]
    assert report.files == tuple(file.name for file in files)
    close(store.load(tmp_path / "lean").eval(), theirs, LLAMA)
    files[0].unlink()
    with pytest.raises(UserError, match=rf"names {files[0].name}, which is not in the folder; fetch the folder again"):
        mh.convert(f"hf:{tmp_path / 'shards'}", tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_half_precision_is_kept_or_cast_and_said(llama: tuple[Path, Any], tmp_path: Path) -> None:
    folder, theirs = llama
    theirs.to(torch.bfloat16).save_pretrained(folder)
    report = mh.convert(f"hf:{folder}", tmp_path / "kept")
    assert report.stored == "bfloat16, as in the files"
    assert {tensor.dtype for tensor in load_file(tmp_path / "kept/model.safetensors").values()} == {torch.bfloat16}
    assert mh.convert(f"hf:{folder}", tmp_path / "wide", dtype="float32").stored == "float32, exactly from bfloat16"
    assert mh.convert(f"hf:{folder}", tmp_path / "other", dtype="float16").stored == "float16, rounded from bfloat16"
    again = transformers.LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
    close(store.load(tmp_path / "kept").eval(), again.eval(), LLAMA)
    mh.export(str(tmp_path / "kept"), tmp_path / "back", stock=True)
    assert json.loads((tmp_path / "back/config.json").read_text())["dtype"] == "bfloat16"
    with pytest.raises(UserError, match="dtype float8: write one of float32, float16, bfloat16"):
        mh.convert(f"hf:{folder}", tmp_path / "bad", dtype="float8")


def test_mixed_precision_is_written_as_the_type_that_holds_both(llama: tuple[Path, Any], tmp_path: Path) -> None:
    folder, theirs = llama
    rewrite(folder, lambda state: state.update({n: t.half() for n, t in state.items() if "norm" not in n}))
    report = mh.convert(f"hf:{folder}", tmp_path / "lean")
    assert report.stored == "float32, which holds F32, F16 of the files exactly"
    norm = load_file(tmp_path / "lean/model.safetensors")["head.norm.weight"]
    assert torch.equal(norm, theirs.model.norm.weight)


def test_names_without_the_prefix_of_a_base_model_are_read(llama: tuple[Path, Any], tmp_path: Path) -> None:
    folder, theirs = llama
    state = load_file(folder / "model.safetensors")
    save_file({name.removeprefix("model."): tensor for name, tensor in state.items()}, folder / "model.safetensors")
    mh.convert(f"hf:{folder}", tmp_path / "lean")
    close(store.load(tmp_path / "lean").eval(), theirs, LLAMA)


def test_buffers_of_older_files_are_left_out_and_named(tmp_path: Path) -> None:
    theirs = model("GPT2LMHeadModel", n_inner=64)
    theirs.save_pretrained(tmp_path / "hf")
    old = {f"transformer.h.{i}.attn.bias": torch.ones(1, 1, 32, 32) for i in range(2)}
    old |= {f"transformer.h.{i}.attn.masked_bias": torch.tensor(-1e4) for i in range(2)}
    rewrite(tmp_path / "hf", lambda state: state.update(old))
    report = mh.convert(f"hf:{tmp_path / 'hf'}", tmp_path / "lean")
    assert sorted(report.buffers) == sorted(old)
    assert dict(report.lines())["tied"] == "lm_head.weight is transformer.wte.weight"


def test_what_pretraining_left_beside_the_model_is_left_out_and_counted(tmp_path: Path) -> None:
    """The files of google's BERT: a pooler, a next-sentence head, and norms by their first names."""
    theirs = model("BertForMaskedLM")
    theirs.save_pretrained(tmp_path / "hf")

    def as_published(state: dict[str, torch.Tensor]) -> None:
        for name in [name for name in state if "LayerNorm" in name]:
            state[name.replace(".weight", ".gamma").replace(".bias", ".beta")] = state.pop(name)
        state["bert.pooler.dense.weight"] = torch.randn(32, 32)
        state["cls.seq_relationship.bias"] = torch.randn(2)

    rewrite(tmp_path / "hf", as_published)
    report = mh.convert(f"hf:{tmp_path / 'hf'}", tmp_path / "lean")
    assert report.left_out == ("bert.pooler.dense.weight", "cls.seq_relationship.bias")
    assert report.left_out_parameters == 32 * 32 + 2
    close(store.load(tmp_path / "lean").eval(), theirs, "BertForMaskedLM")


# ------------------------------------------------------------------------------------------------------------ refusals
def test_tensors_without_a_place_and_places_without_tensors_are_refused(
    llama: tuple[Path, Any], tmp_path: Path
) -> None:
    folder, _ = llama
    rewrite(folder, lambda state: state.update({"model.layers.0.adapter.weight": torch.ones(2, 2)}))
    refused(folder, tmp_path, r"has 1 tensor \(model.layers.0.adapter.weight\) in its files that LlamaForCausalLM")
    rewrite(
        folder,
        lambda state: (state.pop("model.layers.0.adapter.weight"), state.pop("model.layers.1.mlp.up_proj.weight")),
    )
    refused(folder, tmp_path, r"lack what 1 tensor \(blocks.1.mlp.op.inp.weight\) would be made of; fetch them again")


def test_another_shape_than_the_configuration_says_is_refused(llama: tuple[Path, Any], tmp_path: Path) -> None:
    folder, _ = llama
    rewrite(folder, lambda state: state.update({"model.norm.weight": torch.ones(16)}))
    refused(folder, tmp_path, r"model.norm.weight is \(16,\) there and \(32,\) by config.json")


def test_weights_without_a_head_are_refused_with_what_to_do(tmp_path: Path) -> None:
    model("BertForSequenceClassification", num_labels=3).save_pretrained(tmp_path / "hf")
    rewrite(tmp_path / "hf", lambda state: [state.pop(name) for name in list(state) if name.startswith("classifier")])
    refused(
        tmp_path / "hf", tmp_path, r"no head for this model: they lack 2 tensors \(head.out.weight, .*train --weights"
    )
    report = mh.convert(f"hf:{tmp_path / 'hf'}", tmp_path / "open", headless=True)
    assert report.missing == ("head.out.weight", "head.out.bias")
    assert "head.hidden.weight" in load_file(tmp_path / "open/model.safetensors")


def test_a_head_that_is_tied_by_its_configuration_and_is_not_is_refused(
    llama: tuple[Path, Any], tmp_path: Path
) -> None:
    folder, _ = llama
    rewrite(folder, lambda state: state.update({"lm_head.weight": torch.ones(50, 32)}))
    refused(folder, tmp_path, "1,600 parameters that manyheads' map of a llama model does not carry: 1 tensor .lm_head")


def refused(folder: Path, tmp_path: Path, message: str) -> None:
    with pytest.raises(UserError, match=message):
        mh.convert(f"hf:{folder}", tmp_path / "refused")
    assert not (tmp_path / "refused").exists()
    assert not list(tmp_path.glob(".*partial"))


@pytest.mark.parametrize("name", ["pytorch_model.bin", "consolidated.00.pth"])
def test_pickled_weights_are_not_opened(name: str, llama: tuple[Path, Any], tmp_path: Path) -> None:
    folder, _ = llama
    (folder / "model.safetensors").rename(folder / name)
    refused(folder, tmp_path, rf"{name} is a pickle: opening it can run any program, .*save_pretrained\(NEW\)")


def test_quantised_weights_are_refused(llama: tuple[Path, Any], tmp_path: Path) -> None:
    folder, _ = llama
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"quantization_config": {"quant_method": "gptq"}}))
    refused(folder, tmp_path, "says that the weights are quantised")


def test_names_that_hold_no_trained_model_are_refused(llama: tuple[Path, Any], tmp_path: Path) -> None:
    folder, _ = llama
    (tmp_path / "empty").mkdir()
    for name, message in (
        (str(folder), f"write hf:{folder} or timm:{folder}"),
        (str(tmp_path / "empty"), "holds no trained model; write hf:FOLDER, timm:NAME"),
        (f"hf:{tmp_path / 'empty'}", "holds no weights: neither model.safetensors nor"),
        ("vit_b", "vit_b holds no trained model"),
        (f"timm:{tmp_path / 'empty'}", "holds no config.json with model.safetensors"),
    ):
        with pytest.raises(UserError, match=message):
            mh.convert(name, tmp_path / "out")


def test_a_gguf_file_without_the_package_that_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gguf").mkdir()
    (tmp_path / "gguf" / "tiny.gguf").write_bytes(b"GGUF")
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(UserError, match=r"a GGUF file needs manyheads\[gguf\], which is not installed .*pip install"):
        mh.convert(f"hf:{tmp_path / 'gguf'}", tmp_path / "out")


# ------------------------------------------------------------------------------------------------- whole or not at all
def test_an_existing_folder_is_left_alone(llama: tuple[Path, Any], tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years")
    for call in (mh.convert, mh.export):
        with pytest.raises(UserError, match="mine exists; write a new folder, or delete that one"):
            call(f"hf:{llama[0]}", tmp_path / "mine")
    assert [file.name for file in (tmp_path / "mine").iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("stock", [None, False, True])
def test_a_full_disk_leaves_nothing(stock: bool | None, llama: tuple[Path, Any], tmp_path: Path) -> None:
    """A limit on the size of files is what a full disk is to a program."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16384, hard))
    try:
        call = mh.convert if stock is None else partial(mh.export, stock=stock)
        with pytest.raises(UserError, match=r"cannot be written: File too large; .* make room and start again"):
            call(f"hf:{llama[0]}", tmp_path / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["hf"]


def test_a_folder_that_a_killed_process_left_is_removed(llama: tuple[Path, Any], tmp_path: Path) -> None:
    from manyheads.interop.new_folder import new_folder

    child = os.fork()
    if not child:
        with new_folder(tmp_path / "lean") as place:
            (place / "half").write_text("")
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert len(list(tmp_path.glob(".lean.*.partial"))) == 1
    assert not (tmp_path / "lean").exists()
    mh.convert(f"hf:{llama[0]}", tmp_path / "lean")
    assert not list(tmp_path.glob(".lean.*.partial"))
