"""Tiny models of the libraries the probe listens to, one batch for each, and how many sites of each kind they have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

Case = tuple[nn.Module, Any, Mapping[str, int]]

GRID = {"img_size": 32, "patch_size": 8, "embed_dim": 32, "depth": 2, "num_heads": 2, "num_classes": 5}
TEXT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 50}


def images(size: int) -> torch.Tensor:
    """Three images of noise."""
    return torch.randn(3, 3, size, size, generator=torch.Generator().manual_seed(1))


def words(length: int = 12) -> dict[str, torch.Tensor]:
    """Three sequences, the last of them padded by four tokens."""
    ids = torch.randint(1, 50, (3, length), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[2, -4:] = 0
    return {"input_ids": ids, "attention_mask": mask}


def _vit() -> Case:
    from timm.models.vision_transformer import VisionTransformer

    return VisionTransformer(**GRID), images(32), {"softmax": 2}


def _deit() -> Case:
    from timm.models.deit import VisionTransformerDistilled

    return VisionTransformerDistilled(**GRID), images(32), {"softmax": 2}


def _eva(**settings: Any) -> Case:
    from timm.models.eva import Eva

    return Eva(**GRID, use_rot_pos_emb=True, **settings), images(32), {"softmax": 2}


def _xcit() -> Case:
    from timm.models.xcit import Xcit

    model = Xcit(**(GRID | {"img_size": 64}), cls_attn_layers=2)
    return model, images(64), {"cross-covariance": 2}


def _tnt() -> Case:
    from timm.models.tnt import TNT

    settings = GRID | {"patch_size": 16, "img_size": 64, "num_heads_outer": 2}
    del settings["num_heads"]
    model = TNT(**settings, inner_dim=8, num_heads_inner=2)
    return model, images(64), {"pixel": 2, "softmax": 2}


def _volo() -> Case:
    from timm.models.volo import VOLO

    model = VOLO(
        layers=(1, 1, 2, 1),
        img_size=64,
        patch_size=8,
        stem_hidden_dim=8,
        embed_dims=(16, 32, 32, 32),
        num_heads=(2, 2, 2, 2),
        mlp_ratio=(2, 2, 2, 2),
        downsamples=(True, False, False, False),
        num_classes=5,
        outlook_attention=(True, False, False, False),
        post_layers=("ca", "ca"),
        use_mix_token=False,
    )
    return model, images(64), {"outlook": 1, "softmax": 4}


def _davit() -> Case:
    from timm.models.davit import DaVit

    model = DaVit(
        depths=(1, 1, 2, 1), embed_dims=(16, 24, 32, 40), num_heads=(2, 2, 2, 2), window_size=4, num_classes=5
    )
    return model, images(64), {"window": 5, "channel": 5}


def _swin() -> Case:
    from timm.models.swin_transformer import SwinTransformer

    model = SwinTransformer(
        img_size=32, patch_size=4, window_size=4, embed_dim=16, depths=(2, 1), num_heads=(2, 2), num_classes=5
    )
    return model, images(32), {"window": 3}


def _gpt2() -> Case:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=50, n_positions=16, bos_token_id=0, eos_token_id=0)
    return GPT2LMHeadModel(config), words(), {"softmax": 2}


def _reader(name: str, kind: str = "softmax", **settings: Any) -> Callable[[], Case]:
    def make() -> Case:
        import transformers

        config = getattr(transformers, f"{name}Config")(**TEXT, **settings)
        batch = words() if kind == "softmax" else {"input_ids": words()["input_ids"]}  # Nyströmformer fails on padding
        return getattr(transformers, f"{name}Model")(config), batch, {kind: 2}

    return make


def _opt() -> Case:
    from transformers import OPTConfig, OPTModel

    settings = {name: value for name, value in TEXT.items() if name != "intermediate_size"}
    return OPTModel(OPTConfig(**settings, ffn_dim=64, word_embed_proj_dim=32)), words(), {"softmax": 2}


def _distilbert() -> Case:
    from transformers import DistilBertConfig, DistilBertModel

    config = DistilBertConfig(dim=32, n_layers=2, n_heads=4, hidden_dim=64, vocab_size=50)
    return DistilBertModel(config), words(), {"softmax": 2}


def _gemma3() -> Case:
    from transformers import Gemma3TextConfig, Gemma3TextModel

    config = Gemma3TextConfig(
        **TEXT,
        num_key_value_heads=2,
        head_dim=16,
        sliding_window=4,
        layer_types=["sliding_attention", "full_attention"],
    )
    return Gemma3TextModel(config), words(), {"softmax": 2}


def _tower(name: str, part: str) -> Callable[[], Case]:
    def make() -> Case:
        import transformers

        sizes = dict(TEXT) if part == "Text" else {key: value for key, value in TEXT.items() if key != "vocab_size"}
        sizes |= {"max_position_embeddings": 16} if part == "Text" else {"image_size": 32, "patch_size": 8}
        if part == "Text":
            sizes |= {"projection_size": 32} if name == "Siglip" else {"eos_token_id": 2}
        config = getattr(transformers, f"{name}{part}Config")(**sizes)
        batch = words() if part == "Text" else {"pixel_values": images(32)}
        return getattr(transformers, f"{name}{part}Model")(config), batch, {"softmax": 2}

    return make


def _vision(name: str, **settings: Any) -> Callable[[], Case]:
    def make() -> Case:
        import transformers

        sizes = {key: value for key, value in TEXT.items() if key not in ("vocab_size", "intermediate_size")}
        config = getattr(transformers, f"{name}Config")(**sizes, **settings, image_size=32, patch_size=8)
        return getattr(transformers, f"{name}Model")(config), {"pixel_values": images(32)}, {"softmax": 2}

    return make


def _hf_vit() -> Case:
    from transformers import ViTConfig, ViTModel

    sizes = {name: value for name, value in TEXT.items() if name != "vocab_size"}
    return ViTModel(ViTConfig(**sizes, image_size=32, patch_size=8)), {"pixel_values": images(32)}, {"softmax": 2}


def _x_transformers(**settings: Any) -> Callable[[], Case]:
    def make() -> Case:
        import x_transformers

        layers = x_transformers.Decoder(dim=32, depth=2, heads=4, attn_dim_head=8, **settings)
        model = x_transformers.TransformerWrapper(num_tokens=50, max_seq_len=12, attn_layers=layers)
        return model, words()["input_ids"], {"softmax": 2}

    return make


def _torchvision() -> Case:
    from torchvision.models.vision_transformer import VisionTransformer

    model = VisionTransformer(
        image_size=32, patch_size=8, num_layers=2, num_heads=2, hidden_dim=32, mlp_dim=64, num_classes=5
    )
    return model, images(32), {"softmax": 2}


def _encoder(batch_first: bool, **settings: Any) -> Callable[[], Case]:
    def make() -> Case:
        layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=batch_first, **settings)
        nested = batch_first and not settings
        x = torch.randn(3, 12, 32, generator=torch.Generator().manual_seed(1))
        model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=nested)
        return model, x if batch_first else x.transpose(0, 1), {"softmax": 2}

    return make


# fmt: off
CASES: Mapping[str, Callable[[], Case]] = {
    "timm ViT": _vit, "timm DeiT": _deit, "timm XCiT": _xcit, "timm TNT": _tnt, "timm VOLO": _volo, "timm DaViT": _davit,
    "timm EVA": _eva, "timm EVA, separate": lambda: _eva(qkv_fused=False, scale_attn_inner=True), "timm Swin": _swin,
    "transformers GPT-2": _gpt2, "transformers BERT": _reader("Bert"), "transformers RoBERTa": _reader("Roberta"),
    "transformers ViT": _hf_vit,
    "transformers Llama": _reader("Llama", num_key_value_heads=2),
    "transformers Mistral": _reader("Mistral", num_key_value_heads=2, head_dim=8),
    "transformers Qwen2": _reader("Qwen2", num_key_value_heads=2),
    "transformers Qwen3": _reader("Qwen3", num_key_value_heads=2, head_dim=16),
    "transformers OPT": _opt,
    "transformers GPT-NeoX": _reader("GPTNeoX", rotary_pct=0.5),
    "transformers DistilBERT": _distilbert,
    "transformers Mistral, window": _reader("Mistral", num_key_value_heads=2, head_dim=8, sliding_window=4),
    "transformers Gemma": _reader("Gemma", num_key_value_heads=2, head_dim=16),
    "transformers Gemma 2": _reader("Gemma2", num_key_value_heads=2, head_dim=16, sliding_window=4),
    "transformers Gemma 3": _gemma3,
    "transformers Phi-3": _reader("Phi3", num_key_value_heads=2, pad_token_id=0),
    "transformers SmolLM3": _reader("SmolLM3", num_key_value_heads=2, pad_token_id=0),
    "transformers DeiT": _vision("DeiT", intermediate_size=64),
    "transformers DINOv2": _vision("Dinov2", mlp_ratio=2),
    "transformers DINOv2, registers": _vision("Dinov2WithRegisters", mlp_ratio=2, use_swiglu_ffn=True),
    "transformers CLIP, images": _tower("CLIP", "Vision"), "transformers CLIP, text": _tower("CLIP", "Text"),
    "transformers SigLIP, images": _tower("Siglip", "Vision"), "transformers SigLIP, text": _tower("Siglip", "Text"),
    "transformers Nyströmformer": _reader("Nystromformer", "nystrom", num_landmarks=4, segment_means_seq_len=12),
    "torchvision ViT": _torchvision,
    "x-transformers": _x_transformers(),
    "x-transformers, grouped and fused": _x_transformers(attn_kv_heads=2, attn_flash=True, rotary_pos_emb=True),
    "nn.TransformerEncoder": _encoder(True),
    "nn.TransformerEncoder, tokens first": _encoder(False),
    "nn.TransformerEncoder, norm first": _encoder(True, norm_first=True),
}
# fmt: on


def make(name: str) -> Case:
    """A model of that library, its batch, and its sites by kind."""
    torch.manual_seed(0)
    return CASES[name]()
