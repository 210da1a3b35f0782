"""Attention classes of transformers that only the table of taps knows: kappa of every layer equals that of numpy on what
the output projection receives."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from manyheads.conditioning.probe import probe
from manyheads.conditioning.tap_table import TAPS
from manyheads.conditioning.taps import find

TEXT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "vocab_size": 61}
TEXT |= {"max_position_embeddings": 32, "bos_token_id": 1, "eos_token_id": 1, "pad_token_id": 0}
GROUPED = TEXT | {"num_key_value_heads": 2}
GPT = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 61, "n_positions": 32}
IMAGE = {"image_size": 32, "patch_size": 8} | {name: TEXT[name] for name in list(TEXT)[:4]}
T5 = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "vocab_size": 61}
BART = {"d_model": 32, "vocab_size": 61, "max_position_embeddings": 32} | {
    f"{side}_{name}": number
    for side in ("encoder", "decoder")
    for name, number in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 48))
}
# fmt: off
TYPES: dict[str, tuple[dict[str, Any], int]] = {  # a small configuration, and how many attentions one forward calls
    "falcon": (TEXT, 2), "bloom": ({"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": 61}, 2),
    "mpt": ({"d_model": 32, "n_layers": 2, "n_heads": 4, "vocab_size": 61}, 2), "t5": (T5, 6), "bart": (BART, 6),
    "gptj": (GPT | {"rotary_dim": 4}, 2), "codegen": (GPT | {"rotary_dim": 4}, 2), "gpt_bigcode": (GPT, 2),
    "gpt_neo": ({"hidden_size": 32, "num_layers": 2, "attention_types": [[["global", "local"], 1]], "num_heads": 4,
                 "vocab_size": 61, "max_position_embeddings": 32, "window_size": 8}, 2),
    "xglm": ({"d_model": 32, "num_layers": 2, "attention_heads": 4, "ffn_dim": 48, "vocab_size": 61,
              "max_position_embeddings": 32}, 2),
    "mixtral": (GROUPED | {"num_local_experts": 2}, 2),
    "qwen2_moe": (GROUPED | {"num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 16,
                             "shared_expert_intermediate_size": 16}, 2),
    "albert": (TEXT | {"embedding_size": 32}, 2), "electra": (TEXT | {"embedding_size": 32}, 2),
    "esm": (TEXT | {"mask_token_id": 3}, 2), "longformer": (TEXT | {"attention_window": 8}, 2),
    "swin": ({"image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2],
              "window_size": 4}, 2),
    **dict.fromkeys(("beit", "ijepa", "vit_mae"), (IMAGE, 2)),
    "yolos": (IMAGE | {"image_size": [32, 32]}, 2),
    **dict.fromkeys(("phi", "stablelm", "starcoder2", "olmo", "olmo2", "cohere", "granite", "exaone4"), (GROUPED, 2)),
    **dict.fromkeys(("glm", "helium", "seed_oss"), (GROUPED | {"head_dim": 8}, 2)),
    **dict.fromkeys(("deberta-v2", "mpnet", "xlm-roberta", "camembert", "modernbert", "roformer", "persimmon", "biogpt",
                     "ernie", "data2vec-text", "nomic_bert"), (TEXT, 2)),
}
# fmt: on
QUICK = ("falcon", "t5")  # the others are slow, since transformers imports a file for each


def made(kind: str) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    """A small model of the type, and a batch for it."""
    from transformers import AutoConfig, AutoModel

    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, **TYPES[kind][0])
    generator = torch.Generator().manual_seed(1)
    if hasattr(config, "image_size"):
        return AutoModel.from_config(config).eval(), {"pixel_values": torch.randn(2, 3, 32, 32, generator=generator)}
    batch = {"input_ids": torch.randint(5, 60, (2, 16), generator=generator)}
    if config.is_encoder_decoder:
        batch["decoder_input_ids"] = torch.randint(5, 60, (2, 8), generator=generator)
    return AutoModel.from_config(config).eval(), batch


@pytest.mark.filterwarnings("ignore::manyheads.conditioning.probe.LeftOut")
@pytest.mark.parametrize("kind", [k if k in QUICK else pytest.param(k, marks=pytest.mark.slow) for k in TYPES])
def test_kappa_is_that_of_what_the_output_projection_receives(kind: str) -> None:
    model, batch = made(kind)
    received: dict[str, list[torch.Tensor]] = defaultdict(list)
    hooks = []
    for place in find(model):
        assert place.output is not None
        hook = place.output.register_forward_pre_hook(
            lambda _, args, name=place.name: received[name].append(args[0].detach())
        )
        hooks.append(hook)
    torch.manual_seed(0)  # a masked autoencoder draws what it hides
    with torch.no_grad():
        model(**batch)
    for hook in hooks:
        hook.remove()
    torch.manual_seed(0)
    sites = probe(model, batch)
    assert len(sites) == TYPES[kind][1]
    calls = {name: iter(tensors) for name, tensors in received.items()}
    for site in sites:
        heads = (
            next(calls[site.name.partition("#")[0]]).flatten(0, -3).double().numpy()
        )  # modules may be shared, each call is a site
        singular = np.linalg.svd(heads, compute_uv=False)
        if singular[:, -1].min() > 1e-9 * singular[:, 0].max():
            assert site.kappa == pytest.approx(np.exp(np.log(singular[:, 0] / singular[:, -1]).mean()), rel=1e-6)
        assert site.heads * site.head_dim == heads.shape[-1]


@pytest.mark.slow
def test_every_tap_names_a_class_that_transformers_has() -> None:
    import importlib

    for name in TAPS:
        module, _, kind = name.rpartition(".")
        if name.startswith("transformers."):
            assert hasattr(importlib.import_module(module), kind), name
