"""Which modules are MLPs, and their two matrices, by qualified class name as in `taps`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .taps import qualified

# class -> its first matrices (gate and value, where they are two) and its second, as dotted names below it
_DENSE = (("intermediate.dense",), "output.dense")
MLPS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "manyheads.nn.mlp.MlpBlock": (("inp",), "out"),
    "timm.layers.mlp.Mlp": (("fc1",), "fc2"),
    "timm.layers.mlp.GluMlp": (("fc1",), "fc2"),
    "timm.layers.mlp.SwiGLU": (("fc1_g", "fc1_x"), "fc2"),
    "transformers.models.gpt2.modeling_gpt2.GPT2MLP": (("c_fc",), "c_proj"),
    "transformers.models.bert.modeling_bert.BertLayer": _DENSE,
    "transformers.models.roberta.modeling_roberta.RobertaLayer": _DENSE,
    "transformers.models.nystromformer.modeling_nystromformer.NystromformerLayer": _DENSE,
    "transformers.models.vit.modeling_vit.ViTMLP": (("fc1",), "fc2"),
    "transformers.models.llama.modeling_llama.LlamaMLP": (("gate_proj", "up_proj"), "down_proj"),
    "transformers.models.mistral.modeling_mistral.MistralMLP": (("gate_proj", "up_proj"), "down_proj"),
    "transformers.models.qwen2.modeling_qwen2.Qwen2MLP": (("gate_proj", "up_proj"), "down_proj"),
    "transformers.models.qwen3.modeling_qwen3.Qwen3MLP": (("gate_proj", "up_proj"), "down_proj"),
    "torch.nn.modules.transformer.TransformerEncoderLayer": (("linear1",), "linear2"),
    "torch.nn.modules.transformer.TransformerDecoderLayer": (("linear1",), "linear2"),
    "torchvision.models.vision_transformer.MLPBlock": (("0",), "3"),
}


@dataclass(frozen=True, eq=False)
class Pair:
    """An MLP's matrices: `firsts` side by side are the first, the input of `second` is the hidden activation."""

    firsts: tuple[nn.Module, ...]
    second: nn.Module

    def weights(self) -> tuple[Float[Tensor, "mlp_dim width"], Float[Tensor, "width mlp_dim"]]:
        """Both matrices, whole: shards are gathered. Which side is in and which out does not matter to kappa."""
        first, second = [_whole(part) for part in self.firsts], _whole(self.second)
        return torch.cat(first) if len(first) > 1 else first[0], second


def _whole(module: nn.Module) -> Tensor:
    weight = module.weight
    assert isinstance(weight, Tensor)
    shards = sys.modules.get("torch.distributed.tensor")
    if shards is not None and isinstance(weight, shards.DTensor):
        weight = weight.full_tensor()
    return weight.detach()


def pairs(model: nn.Module) -> tuple[Pair, ...]:
    """Every MLP of the model that the table knows."""
    found = []
    for module in model.modules():
        names = next((MLPS[name] for base in type(module).__mro__ if (name := qualified(base)) in MLPS), None)
        if names is not None:
            firsts, second = names
            found.append(Pair(tuple(module.get_submodule(first) for first in firsts), module.get_submodule(second)))
    return tuple(found)
