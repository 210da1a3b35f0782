"""Text encoders and image models of transformers, read from their own configurations: parameters to the integer, outputs
and gradients in float64, weights both ways. Under padding, those of real tokens."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from manyheads.arch.count import params
from manyheads.interop.read_hf import from_config
from manyheads.models.build import build
from manyheads.models.twins import hf_text_maps, hf_vision_maps
from manyheads.models.twins.hf_types import MAPS
from manyheads.models.twins.tensors import back, into
from manyheads.spec.arch import Arch
from manyheads.spec.parts import Features

from .harness import agree
from .hf import untied

transformers = pytest.importorskip("transformers", reason="transformers is in the dev extra")
stock_model = pytest.importorskip("manyheads.interop.hf", reason="transformers is in the dev extra").stock_model

# fmt: off
SIZES = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 40}
EPS = {"layer_norm_eps": 1e-3}  # the defaults, down to 1e-12, would hide an eps that is left out somewhere
TEXT = SIZES | EPS | {"vocab_size": 61, "max_position_embeddings": 14, "num_labels": 5}
IMAGE = SIZES | EPS | {"image_size": 16, "patch_size": 4, "num_labels": 5}
DINO = {key: IMAGE[key] for key in IMAGE if key != "intermediate_size"} | {"mlp_ratio": 2, "layerscale_value": 0.5}
DISTIL = {"dim": 24, "n_layers": 2, "n_heads": 3, "hidden_dim": 40, "vocab_size": 61, "max_position_embeddings": 14,
          "num_labels": 5}
TEXTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bert_model": ("Bert", "BertModel", TEXT),
    "bert_relu": ("Bert", "BertForMaskedLM", TEXT | {"hidden_act": "relu"}),
    "roberta": ("Roberta", "RobertaForMaskedLM", TEXT | {"type_vocab_size": 1}),
    "roberta_model": ("Roberta", "RobertaModel", TEXT),
    "roberta_classify": ("Roberta", "RobertaForSequenceClassification", TEXT | {"hidden_act": "relu"}),
    "roberta_padding_3": ("Roberta", "RobertaForMaskedLM", TEXT | {"pad_token_id": 3}),
    "xlm_roberta": ("XLMRoberta", "XLMRobertaForMaskedLM", TEXT),
    "xlm_roberta_model": ("XLMRoberta", "XLMRobertaModel", TEXT),
    "camembert": ("Camembert", "CamembertForMaskedLM", TEXT),
    "camembert_classify": ("Camembert", "CamembertForSequenceClassification", TEXT),
    "distilbert": ("DistilBert", "DistilBertForMaskedLM", DISTIL | {"activation": "relu"}),
    "distilbert_model": ("DistilBert", "DistilBertModel", DISTIL),
    "distilbert_classify": ("DistilBert", "DistilBertForSequenceClassification", DISTIL),
    "electra": ("Electra", "ElectraForMaskedLM", TEXT | {"embedding_size": 24, "hidden_act": "relu"}),
    "electra_model": ("Electra", "ElectraModel", TEXT | {"embedding_size": 24}),
    "electra_classify": ("Electra", "ElectraForSequenceClassification", TEXT | {"embedding_size": 24}),
    "clip_text": ("CLIPText", "CLIPTextModel", TEXT | {"eos_token_id": 60}),
    "clip_text_projected": ("CLIPText", "CLIPTextModelWithProjection", TEXT | {"eos_token_id": 60, "projection_dim": 7}),
    "clip_text_old": ("CLIPText", "CLIPTextModelWithProjection", TEXT | {"eos_token_id": 2, "projection_dim": 7}),
    "siglip_text": ("SiglipText", "SiglipTextModel", TEXT | {"projection_size": 7}),
    "siglip2_text": ("Siglip2Text", "Siglip2TextModel", TEXT),
}
IMAGES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "vit_model": ("ViT", "ViTModel", IMAGE | {"pooler_output_size": 7, "pooler_act": "relu"}),
    "vit_relu": ("ViT", "ViTForImageClassification", IMAGE | {"hidden_act": "relu", "image_size": [16, 16]}),
    "deit_hf": ("DeiT", "DeiTForImageClassification", IMAGE),
    "deit_teacher": ("DeiT", "DeiTForImageClassificationWithTeacher", IMAGE),
    "deit_model": ("DeiT", "DeiTModel", IMAGE),
    "dinov2": ("Dinov2", "Dinov2Model", DINO),
    "dinov2_giant": ("Dinov2", "Dinov2Model", DINO | {"use_swiglu_ffn": True, "qkv_bias": False}),
    "dinov2_no_mask": ("Dinov2", "Dinov2Model", DINO | {"use_mask_token": False}),
    "dinov2_classify": ("Dinov2", "Dinov2ForImageClassification", DINO),
    "dinov2_registers": ("Dinov2WithRegisters", "Dinov2WithRegistersModel", DINO),
    "dinov2_registers_classify": ("Dinov2WithRegisters", "Dinov2WithRegistersForImageClassification", DINO),
    "clip_image": ("CLIPVision", "CLIPVisionModel", IMAGE),
    "clip_image_projected": ("CLIPVision", "CLIPVisionModelWithProjection", IMAGE | {"projection_dim": 7}),
    "siglip_image": ("SiglipVision", "SiglipVisionModel", IMAGE),
    "siglip_image_no_head": ("SiglipVision", "SiglipVisionModel", IMAGE | {"vision_use_head": False}),
}
# fmt: on


def read(kind: str, name: str, settings: dict[str, Any]) -> tuple[Arch, nn.Module, str]:
    """The record, the twin and its model type; the record has the twin's number of parameters."""
    config = getattr(transformers, f"{kind}Config")(**settings)
    twin = getattr(transformers, name)(config)
    said = json.loads(config.to_json_string(use_diff=False)) | {"architectures": [name]}
    arch = from_config(said)
    assert params(arch).total == sum(p.numel() for p in twin.parameters())
    return arch, twin, said["model_type"]


def both(tokens: Tensor, vector: Tensor | None, real: Tensor | None = None) -> Tensor:
    """All numbers of the tokens and of the vector, in one row."""
    parts = [tokens if real is None else tokens[real]] + ([] if vector is None else [vector])
    return torch.cat([part.flatten() for part in parts])


def theirs_of(out: Any, arch: Arch, real: Tensor | None = None) -> Tensor:
    """What of a twin's output the record promises."""
    if not isinstance(arch.head, Features):
        return out.logits if real is None or out.logits.ndim == 2 else out.logits[real]
    names = ("pooler_output", "text_embeds", "image_embeds")
    vector = next((out[name] for name in names if out.get(name) is not None), None)
    return both(out.last_hidden_state, vector if arch.head.pooler is not None else None, real)


def ours_of(model: Any, out: Tensor, ids: Tensor | None = None, real: Tensor | None = None) -> Tensor:
    """The same of ours."""
    head = model.arch.head
    if not isinstance(head, Features):
        return out if real is None or out.ndim == 2 else out[real]
    return both(out, None if head.pooler is None else model.head.pooled(out, ids), real)


def sentences(arch: Arch, pad: str, padding: int) -> tuple[Tensor, Tensor]:
    """Ids, and which are real: each sequence is two shorter than the one before, filled with the id of padding on its
    `left` or `right`. One token has the largest id, which ends a text of CLIP."""
    length = arch.stages[0].tokens - 1
    ids = torch.randint(4, 60, (3, length), generator=torch.Generator().manual_seed(5))
    ids[:, length // 2] = 60
    short = 2 * torch.arange(3)[:, None] * bool(pad)
    places = torch.arange(length)
    real = places >= short if pad == "left" else places < length - short
    return ids.where(real, padding), real


def padded(name: str) -> tuple[str, ...]:
    """Where a batch is padded. In front only where nothing reads the first token, which is padding then, and where it
    sees other tokens; SigLIP's texts never are, since their vector is that of the last token."""
    if "siglip" in name:
        return ("",)
    return ("", "right", "left") if TEXTS[name][1].endswith("ForMaskedLM") else ("", "right")


@pytest.mark.filterwarnings("ignore")  # of transformers
@pytest.mark.parametrize(("name", "pad"), [(name, pad) for name in TEXTS for pad in padded(name)])
def test_a_text_encoder_equals_transformers(name: str, pad: str) -> None:
    arch, twin, kind = read(*TEXTS[name])
    ids, real = sentences(arch, pad, twin.config.pad_token_id or 0)
    mask, rows = (real, real) if pad else (None, None)
    types = torch.randint(2, ids.shape, generator=torch.Generator().manual_seed(6))
    mine = {"types": types} if arch.embed.types > 1 else {}
    its = {"token_type_ids": types} if arch.embed.types > 1 else {}
    if mask is not None:
        its["attention_mask"] = mask.long()
    agree(
        f"{name}{pad and '_'}{pad}",
        f"transformers {TEXTS[name][1]}",
        arch,
        twin,
        MAPS[kind].entries(arch),
        lambda model: ours_of(model, model(ids, mask, **mine), ids, rows),
        lambda model: theirs_of(model(ids, **its), arch, rows),
        **untied(MAPS[kind].tied(arch)),
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", IMAGES)
def test_an_image_model_equals_transformers(name: str) -> None:
    """DINOv2 with hidden patches, so that its mask token counts."""
    arch, twin, kind = read(*IMAGES[name])
    dice = torch.Generator().manual_seed(3)
    images = torch.randn(3, 3, 16, 16, dtype=torch.float64, generator=dice)
    hide = arch.embed.mask_token and isinstance(arch.head, Features)
    hidden = torch.rand(3, 16, generator=dice) < 0.4
    run = (lambda m: m.head(m.features(images, hidden))) if hide else (lambda m: m(images))
    kwargs = {"bool_masked_pos": hidden} if hide else {}
    agree(
        name,
        f"transformers {IMAGES[name][1]}",
        arch,
        twin,
        MAPS[kind].entries(arch),
        lambda model: ours_of(model, run(model)),
        lambda model: theirs_of(model(images, **kwargs), arch),
        unread=() if hide else ("embed.mask_token",),
    )


# fmt: off
WIDE = {"hidden_size": 126, "intermediate_size": 192, "vocab_size": 400, "image_size": 64, "patch_size": 8,
        "max_position_embeddings": 90, "eos_token_id": 399}
# fmt: on
STARTS = (
    "roberta_model",
    "clip_text_projected",
    "clip_image_projected",
    "siglip_text",
    "siglip_image",
    "dinov2_registers",
)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", STARTS)
def test_a_dialect_starts_as_transformers_starts_it(name: str) -> None:
    """Mean and spread of every large tensor; small ones are as small."""
    kind, twin_name, settings = (TEXTS | IMAGES)[name]
    wide = {key: value for key, value in (settings | WIDE).items() if key in settings}
    arch, twin, kind = read(kind, twin_name, wide)
    mine, theirs = back(MAPS[kind].entries(arch), build(arch, seed=0).state_dict()), twin.state_dict()
    for at, tensor in mine.items():
        rough = 0.1 if tensor.numel() > 5000 else 0.35  # of what is drawn, a small tensor varies more
        assert tensor.std(correction=0).item() == pytest.approx(
            theirs[at].std(correction=0).item(), rel=rough, abs=1e-4
        ), at
        assert tensor.mean().item() == pytest.approx(
            theirs[at].mean().item(), abs=0.35 * theirs[at].std().item() + 1e-4
        ), at


# what a record does not keep: the name of a type that shares its code with another, XLM-RoBERTa's with RoBERTa's
SHARED = {"xlm_roberta", "xlm_roberta_model", "camembert", "camembert_classify", "siglip2_text"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in TEXTS | IMAGES if name not in SHARED])
def test_a_model_goes_back_into_the_class_it_came_from(name: str) -> None:
    """Its configuration, read again, is the same record, and its weights are the same."""
    arch, twin, kind = read(*(TEXTS | IMAGES)[name])
    ours = build(arch)
    tied = MAPS[kind].tied(arch)
    ours.load_state_dict(into(MAPS[kind].entries(arch), {k: v for k, v in twin.state_dict().items() if k not in tied}))
    again = stock_model(ours)
    assert type(again) is type(twin)
    torch.testing.assert_close(again.state_dict(), twin.state_dict(), rtol=0, atol=0)


def test_every_map_of_an_encoder_is_compared() -> None:
    kinds = {getattr(transformers, f"{kind}Config").model_type for kind, *_ in (TEXTS | IMAGES).values()}
    maps = [hf_text_maps.roberta, hf_text_maps.distilbert, hf_text_maps.electra, hf_text_maps.clip_text]
    maps += [hf_text_maps.siglip_text, hf_vision_maps.deit, hf_vision_maps.dinov2, hf_vision_maps.clip_image]
    assert {MAPS[kind].entries for kind in kinds} >= {*maps, hf_vision_maps.siglip_image}
