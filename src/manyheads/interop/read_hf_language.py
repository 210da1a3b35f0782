"""Language models of transformers that continue a text as records, each from the object of its `config.json`.

GPT-2 has no head_dim of its own: transformers divides the width by the heads and ignores a `head_dim` key, so a key that
says otherwise is refused. Encoders of text are read in `read_hf_encoders`."""

from __future__ import annotations

from collections.abc import Callable

from manyheads.arch import families as f
from manyheads.spec.arch import Arch

from .hf_fields import Config, activation, real, split_head_dim, whole, with_eps_and_act


def _gpt2(config: Config) -> Arch:
    width, heads = whole(config, "n_embd", "hidden_size"), whole(config, "n_head", "num_attention_heads")
    positions = whole(config, "n_positions", "max_position_embeddings", default=1024)
    arch = f.gpt2(
        width,
        whole(config, "n_layer", "num_hidden_layers"),
        heads,
        split_head_dim(config, width, heads),
        whole(config, "n_inner", default=4 * width),
        vocab=whole(config, "vocab_size", default=50257),
        tokens=positions,
        positions=positions,
        tied=config.get("tie_word_embeddings", True),
    )
    eps = real(config, "layer_norm_epsilon", 1e-5)
    return with_eps_and_act(arch, eps, activation(config, "activation_function", "gelu_new"))


CAUSAL = ("ForCausalLM", "LMHeadModel")
# model type -> the function that reads it, and the endings of the classes that it reads
READERS: dict[str, tuple[Callable[[Config], Arch], tuple[str, ...]]] = {"gpt2": (_gpt2, CAUSAL)}
