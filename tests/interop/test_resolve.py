"""Names that planning takes: run folders, emitted folders, configurations, and a model that cannot be fetched."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from manyheads.interop.read_hf import from_config
from manyheads.interop.resolve import resolve
from manyheads.models import store
from manyheads.models.build import build
from manyheads.spec import serialise as record
from manyheads.spec.errors import UserError
from tests.models.tiny import ORIGINALS

GPT, VIT = ORIGINALS["gpt2"], ORIGINALS["vit"]


def test_a_run_folder_by_its_saved_model_or_its_spec(tmp_path: Path) -> None:
    (tmp_path / "spec.json").write_text(json.dumps({"schema": 1, "arch": record.to_dict(VIT), "seed": 0}))
    assert resolve(f"run:{tmp_path}") == VIT
    store.save(build(GPT, seed=0), tmp_path / "model")
    assert resolve(f"run:{tmp_path}") == GPT
    from manyheads.interop.load import load

    assert not load(f"run:{tmp_path}", tokens=8).initial


def test_what_is_no_run_says_so(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"neither model/arch\.json nor spec\.json"):
        resolve(f"run:{tmp_path}")
    (tmp_path / "spec.json").write_text("[]")
    with pytest.raises(UserError, match="not an architecture record"):
        resolve(f"run:{tmp_path}")


@pytest.mark.parametrize("kind", ["hf", "timm", "python"])
def test_what_was_emitted_can_be_planned_again(kind: str, tmp_path: Path) -> None:
    pytest.importorskip({"hf": "transformers", "timm": "timm", "python": "torch"}[kind], reason="an extra")
    from manyheads.interop.emit import emit

    emitted = emit(VIT, kind, tmp_path, "vit")
    assert emitted["lines"]
    if kind == "python":
        space: dict = {}
        exec((tmp_path / "redesign.py").read_text(), space)
        assert space["ARCH"] == VIT
    else:
        assert resolve(str(tmp_path)) == resolve(str(tmp_path / "config.json")) == VIT


def test_an_emitted_hugging_face_folder_can_be_probed(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="transformers is in the hf extra")
    from manyheads.conditioning.probe import probe
    from manyheads.interop.hf import export
    from manyheads.interop.load import load

    export(GPT, tmp_path, seed=0)
    loaded = load(f"hf:{tmp_path}", tokens=10)
    assert len(probe(loaded.module, loaded.input.noise(2))) == 3


def test_a_hub_name_that_cannot_be_fetched_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers", reason="transformers is in the hf extra")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match="is not a folder here"):
        resolve("hf:nobody/no-such-model")


def test_emit_knows_three_kinds(tmp_path: Path) -> None:
    from manyheads.interop.emit import emit

    with pytest.raises(UserError, match="write one of timm, hf, python"):
        emit(VIT, "onnx", tmp_path, "vit")
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        emit(VIT, "python", blocked, "vit")


@pytest.mark.parametrize("given", [{"model_args": 3}, {"model_args": None}, {"model_args": {"arch": []}}])
def test_an_emitted_configuration_without_its_record_is_refused(given: Any, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(given))
    with pytest.raises(UserError, match="this is not an architecture record"):
        resolve(str(tmp_path))


def test_a_name_of_the_hub_is_told_its_prefix() -> None:
    with pytest.raises(
        UserError, match="'facebook/opt-125m'; write hf:facebook/opt-125m for a model of the Hugging Face hub"
    ):
        resolve("facebook/opt-125m")
    with pytest.raises(UserError, match="'resnet50'; write a zoo name"):
        resolve("resnet50")


@pytest.mark.parametrize("name", [None, 3, Path("vit_b"), ["vit_b"]])
def test_what_is_no_name_is_refused(name: Any) -> None:
    with pytest.raises(UserError, match="the model is "):
        resolve(name)


@pytest.mark.parametrize("config", [1, None, "gpt2", ["gpt2"], {}, {"model_type": 3}, {"model_type": ["gpt2"]}])
def test_what_is_no_configuration_is_refused(config: Any) -> None:
    with pytest.raises(UserError, match=r"config is|model_type"):
        from_config(config)


WIDE = {
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "vocab_size": 50,
    "max_position_embeddings": 128,
}
CONFIGS: dict[str, dict[str, Any]] = {
    "gpt2": {"n_embd": 32, "n_layer": 1, "n_head": 2, "vocab_size": 50, "n_positions": 16},
    "vit": WIDE | {"image_size": 32, "patch_size": 8},
    **dict.fromkeys(("llama", "mistral", "qwen2", "qwen3", "bert", "nystromformer"), WIDE),
    **dict.fromkeys(("gemma3_text", "cohere2", "smollm3", "gpt_neox", "phi3", "granite"), WIDE),
    "opt": WIDE | {"ffn_dim": 64},
    "gpt_neo": WIDE | {"window_size": 4},
}
MORE = (
    *(
        "architectures",
        "head_dim",
        "n_inner",
        "activation_function",
        "hidden_act",
        "layer_norm_epsilon",
        "layer_norm_eps",
    ),
    *("tie_word_embeddings", "id2label", "num_labels", "type_vocab_size", "qkv_bias", "num_channels", "rope_scaling"),
    *("rope_parameters", "rope_theta", "num_key_value_heads", "attention_bias", "sliding_window", "use_sliding_window"),
    *("rms_norm_eps", "conv_kernel_size", "num_landmarks", "mlp_bias", "is_decoder", "position_embedding_type"),
    *("layer_types", "no_rope_layers", "max_window_layers", "sliding_window_pattern", "partial_rotary_factor"),
    *("query_pre_attn_scalar", "final_logit_softcapping", "logit_scale", "residual_multiplier", "rotary_pct"),
    *("use_parallel_residual", "word_embed_proj_dim", "do_layer_norm_before", "attention_layers"),
)
WRONG = [None, 1.5, "x", [1], {"a": 1}, 10**400, -1, True, float("nan")]


@pytest.mark.parametrize("kind", CONFIGS)
def test_a_wrong_key_of_a_configuration_is_a_sentence(kind: str) -> None:
    """Every key with every wrong value: a record where the value means the default, or a sentence."""
    config = CONFIGS[kind] | {"model_type": kind}
    from_config(config)
    for name in (*config, *MORE):
        for value in WRONG:
            with suppress(UserError):
                from_config(config | {name: value})
