"""How the towers of CLIP (2103.00020) and SigLIP (2303.15343) start: their initial weights, as transformers draws them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from manyheads.nn.attention import QkvAttention
from manyheads.nn.embed import PatchEmbed, TokenEmbed
from manyheads.nn.heads import LatentPooler, VectorPooler
from manyheads.nn.residual import MlpBlock

from .build import truncated


@torch.no_grad()
def clip(model: nn.Module) -> None:
    """Output projections N(0, 1/width); what reads the residual stream in attention, and what the MLP writes into it,
    smaller by sqrt(2 depth); tables and patches N(0, 0.02). Biases are 0 already."""
    depth = len(model.blocks)  # type: ignore[arg-type]
    for part in model.modules():
        match part:
            case QkvAttention():
                width = part.qkv.in_features
                nn.init.normal_(part.qkv.weight, std=(2 * depth * width) ** -0.5)
                nn.init.normal_(part.out.weight, std=width**-0.5)
            case MlpBlock():
                width = part.inp.in_features
                nn.init.normal_(part.inp.weight, std=(2 * width) ** -0.5)
                nn.init.normal_(part.out.weight, std=(2 * depth * width) ** -0.5)
            case PatchEmbed():
                nn.init.normal_(part.proj.weight, std=0.02)
                nn.init.normal_(part.positions, std=0.02)
                if part.class_tokens is not None:
                    nn.init.normal_(part.class_tokens, std=part.proj.out_features**-0.5)
            case VectorPooler(out=nn.Linear() as out):
                nn.init.normal_(out.weight, std=out.in_features**-0.5)


@torch.no_grad()
def siglip(model: nn.Module) -> None:
    """Queries, keys, values, output and both matrices of the MLP by Xavier's uniform law, each apart; biases of the MLP
    N(0, 1e-6); positions and tables N(0, 1/width); the other linear maps by LeCun's law. The pooler draws its queries,
    keys and values as one matrix."""
    for part in model.modules():
        match part:
            case QkvAttention(spec=spec):
                for matrix in part.qkv.weight.split((spec.inner, spec.kv_inner, spec.kv_inner)):
                    nn.init.xavier_uniform_(matrix)
                nn.init.xavier_uniform_(part.out.weight)
            case MlpBlock():
                for linear in (part.inp, part.out):
                    nn.init.xavier_uniform_(linear.weight)
                    if linear.bias is not None:
                        nn.init.normal_(linear.bias, std=1e-6)
            case PatchEmbed():
                lecun(part.proj.weight)
                nn.init.normal_(part.positions, std=part.proj.out_features**-0.5)
            case TokenEmbed():
                for table in (part.vocab, part.positions):
                    if table is not None:
                        nn.init.normal_(table.weight, std=table.weight.shape[1] ** -0.5)
            case VectorPooler(out=nn.Linear() as out):
                lecun(out.weight)
            case LatentPooler():
                bound = (3 / part.latent.numel()) ** 0.5
                nn.init.uniform_(part.latent, -bound, bound)
                nn.init.xavier_uniform_(part.attention.qkv.weight)
                lecun(part.attention.out.weight)


def lecun(matrix: Tensor) -> None:
    """LeCun's law as transformers draws it: cut at +-2, and as wide as if it were cut at two standard deviations."""
    truncated(matrix, matrix.shape[1] ** -0.5 / 0.87962566103423978)
