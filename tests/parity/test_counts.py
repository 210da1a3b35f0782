"""Counts of the zoo and of the paper's rows equal modules built by timm and transformers on the meta device."""

from __future__ import annotations

import json

import pytest
import torch

from manyheads.arch import zoo
from manyheads.arch.count import activation_bytes, params
from manyheads.interop.read_hf import from_config
from manyheads.spec.errors import UserError

timm = pytest.importorskip("timm", reason="timm is in the dev extra")
transformers = pytest.importorskip("transformers", reason="transformers is in the dev extra")

# fmt: off
TIMM = {
    "vit_ti": "vit_tiny_patch16_224", "vit_s": "vit_small_patch16_224", "vit_b": "vit_base_patch16_224",
    "vit_l": "vit_large_patch16_224", "deit_ti": "deit_tiny_patch16_224", "deit_s": "deit_small_patch16_224",
    "deit_b": "deit_base_patch16_224", "deit_ti_distilled": "deit_tiny_distilled_patch16_224",
    "deit_s_distilled": "deit_small_distilled_patch16_224", "deit_b_distilled": "deit_base_distilled_patch16_224",
    "xcit_s12": "xcit_small_12_p16_224", "xcit_s24": "xcit_small_24_p16_224", "xcit_m24": "xcit_medium_24_p16_224",
    "xcit_l24": "xcit_large_24_p16_224", "tnt_s": "tnt_s_patch16_224", "tnt_b": "tnt_b_patch16_224",
    "tnt_s_legacy": "tnt_s_legacy_patch16_224", "volo_d1": "volo_d1_224", "volo_d2": "volo_d2_224",
    "volo_d3": "volo_d3_224", "volo_d4": "volo_d4_224", "volo_d5": "volo_d5_224", "davit_t": "davit_tiny",
    "davit_s": "davit_small", "davit_b": "davit_base", "davit_l": "davit_large",
}
# fmt: on


def total(module: torch.nn.Module) -> int:
    """Parameters, shared ones once."""
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize("name", TIMM)
def test_zoo_counts_what_timm_builds(name: str) -> None:
    with torch.device("meta"):
        twin = timm.create_model(TIMM[name])
    assert params(zoo.get(name)).total == total(twin)


def config_of(kind: type, **settings) -> dict:
    """A configuration as its config.json would hold it."""
    return json.loads(kind(**settings).to_json_string(use_diff=False))


# fmt: off
CONFIGS = {
    "gpt2": ("GPT2", "GPT2LMHeadModel", {}),
    "bert_base": ("Bert", "BertForMaskedLM", {}),
    "llama_1b": ("Llama", "LlamaForCausalLM", {
        "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64,
        "intermediate_size": 8192, "vocab_size": 128256, "max_position_embeddings": 8192, "tie_word_embeddings": True,
        "rms_norm_eps": 1e-5, "rope_parameters": {
            "rope_type": "llama3", "rope_theta": 500000.0, "factor": 32.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}}),
    "qwen3_0.6b": ("Qwen3", "Qwen3ForCausalLM", {
        "hidden_size": 1024, "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
        "intermediate_size": 3072, "vocab_size": 151936, "max_position_embeddings": 8192, "tie_word_embeddings": True,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}),
}
# fmt: on


@pytest.mark.parametrize("name", CONFIGS)
def test_zoo_counts_what_transformers_builds_and_reads_its_config(name: str) -> None:
    kind, model, settings = CONFIGS[name]
    config = config_of(getattr(transformers, kind + "Config"), **settings)
    with torch.device("meta"):
        twin = getattr(transformers, model)(getattr(transformers, kind + "Config")(**settings))
    assert params(zoo.get(name)).total == total(twin)
    assert from_config(config) == zoo.get(name)


@pytest.mark.parametrize(
    ("kind", "model", "settings"),
    [
        (
            "Bert",
            "BertForSequenceClassification",
            {"num_labels": 3, "architectures": ["BertForSequenceClassification"]},
        ),
        ("Nystromformer", "NystromformerForMaskedLM", {}),
        (
            "Nystromformer",
            "NystromformerForSequenceClassification",
            {"num_labels": 5, "architectures": ["NystromformerForSequenceClassification"]},
        ),
        ("ViT", "ViTForImageClassification", {"num_labels": 10, "image_size": 64}),
        ("ViT", "ViTForImageClassification", {"num_labels": 10, "head_dim": 40, "num_attention_heads": 7}),
        (
            "Qwen2",
            "Qwen2ForCausalLM",
            {
                "num_hidden_layers": 2,
                "hidden_size": 64,
                "num_attention_heads": 4,
                "num_key_value_heads": 2,
                "intermediate_size": 100,
                "vocab_size": 99,
            },
        ),
        (
            "Llama",
            "LlamaForCausalLM",
            {
                "num_hidden_layers": 2,
                "hidden_size": 64,
                "num_attention_heads": 4,
                "attention_bias": True,
                "intermediate_size": 100,
                "vocab_size": 99,
            },
        ),
        ("GPT2", "GPT2LMHeadModel", {"n_layer": 2, "n_embd": 96, "n_head": 6, "n_inner": 200, "vocab_size": 50}),
    ],
)
def test_other_configs_count_what_transformers_builds(kind: str, model: str, settings: dict) -> None:
    config = getattr(transformers, kind + "Config")(**settings)
    with torch.device("meta"):
        twin = getattr(transformers, model)(config)
    assert params(from_config(json.loads(config.to_json_string(use_diff=False)))).total == total(twin)


def test_what_bert_has_beside_its_head_is_refused_with_its_count() -> None:
    config = transformers.BertConfig(hidden_size=48, num_hidden_layers=1, num_attention_heads=3, intermediate_size=64)
    with torch.device("meta"):
        whole, masked = transformers.BertForPreTraining(config), transformers.BertForMaskedLM(config)
    said = config_of(transformers.BertConfig, **config.to_diff_dict())
    with pytest.raises(
        UserError, match=f"pooler and a next-sentence head .* {total(whole) - total(masked):,} parameters"
    ):
        from_config(said | {"architectures": ["BertForPreTraining"]})
    assert params(from_config(said | {"architectures": ["BertForMaskedLM"]})).total == total(masked)


@pytest.mark.parametrize(
    ("name", "bound"), [("vit_b", 0.05), ("xcit_s12", 0.10), ("tnt_s", 0.10), ("volo_d1", 0.10), ("davit_t", 0.10)]
)
def test_activation_memory_is_what_timms_autograd_saves(
    name: str, bound: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes kept for backward by timm's eager float32 model with attention maps, tallied on the meta device.

    Two images: with one, PyTorch views batched products instead of copying them, and keeps other tensors."""
    monkeypatch.setattr(timm.layers.config, "_USE_FUSED_ATTN", 0)
    with torch.device("meta"):
        twin = timm.create_model(TIMM[name])
    weights = {p.untyped_storage()._cdata for p in twin.parameters()}
    kept: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in weights:
            kept[storage._cdata] = storage.nbytes()
        return tensor

    alive = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (alive.append(t), pack(t))[1], lambda t: t):
        twin.train()(torch.empty(2, 3, 224, 224, device="meta"))
    assert activation_bytes(zoo.get(name), 2, "fp32", False) == pytest.approx(sum(kept.values()), rel=bound)
