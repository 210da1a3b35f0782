"""timm's VisionTransformer, in all its variants, as a record. A part that a record cannot describe is refused by name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import nn

from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.parts import (
    Act,
    Attention,
    AttentionPooler,
    ClassAttention,
    Classify,
    Features,
    Mlp,
    Norm,
    Patch,
    Pooler,
    Residual,
    Stage,
)

ACTS: dict[str, Act] = {  # theirs -> ours
    "GELU": "gelu",
    "GELUTanh": "gelu_tanh",
    "QuickGELU": "quick_gelu",
    "SiLU": "silu",
    "ReLU": "relu",
}
NORMS = {"LayerNorm": "layer", "LayerNormFp32": "layer", "RmsNorm": "rms", "RMSNorm": "rms"}
MLPS = {"Mlp": False, "GluMlp": True, "SwiGLU": True}  # theirs -> whether it is gated
OTHER_BLOCKS = {
    "ResPostBlock": "norms after its branches",
    "ParallelScalingBlock": "attention and MLP that read the same norm side by side",
    "DiffParallelScalingBlock": "differential attention",
}


def require(condition: bool, otherwise: str) -> None:
    """Refuse a model for what it has."""
    if not condition:
        raise UserError(f"this timm model has {otherwise}, which manyheads does not build")


def plain(module: nn.Module | None) -> bool:
    """Whether a place for a module is empty."""
    return module is None or isinstance(module, nn.Identity)


def read_vit(model: Any, image: int) -> Arch:
    """The record of a VisionTransformer, whose blocks are of one kind and alike."""
    first = model.blocks[0]
    kind = type(first).__name__
    require(kind in ("Block", "ParallelThingsBlock"), OTHER_BLOCKS.get(kind, f"blocks of the class {kind}"))
    embed = _embedding(model)
    layers = [_parallel(block) if kind == "ParallelThingsBlock" else _layer(block) for block in model.blocks]
    require(len(set(layers)) == 1, "layers that differ")
    tokens = (embed.image // embed.patch) ** 2 + embed.prefix
    family = "deit" if embed.class_tokens == 2 else "vit"
    return Arch(family, embed, (Stage(model.embed_dim, tokens, len(layers), (layers[0],)),), _head(model, embed))


def _embedding(model: Any) -> Patch:
    """Patches, class tokens and registers, positions, and the norm over all of them."""
    patches, registers = model.patch_embed, getattr(model, "num_reg_tokens", 0)
    require(type(patches).__name__ == "PatchEmbed", f"a {type(patches).__name__} in place of plain patches")
    require(plain(patches.norm), "a norm of its patches before their positions")
    require(model.pos_embed is not None, "no learned positions")
    (rows, columns), (height, width) = patches.img_size, patches.proj.kernel_size
    require(rows == columns and height == width, "images or patches that are not square")
    return Patch(
        image=rows,
        patch=height,
        channels=patches.proj.in_channels,
        class_tokens=model.num_prefix_tokens - registers,
        class_positions=not model.no_embed_class or not model.num_prefix_tokens,
        bias=patches.proj.bias is not None,
        registers=registers,
        norm=norm_of(model.norm_pre),
    )


def _head(model: Any, embed: Patch) -> Classify | Features:
    """How the head pools, where its norm is, and how many classes it has. A model without classes gives its tokens, and
    its class token or what its pooling attends to as their vector."""
    pool = model.global_pool
    last = not plain(model.fc_norm)
    require(plain(model.norm) or not last, "two norms before its classifier")
    if pool in ("map", "prr"):
        require(not model.num_classes, "attention that pools its tokens for a classifier")
        return Features(norm_of(model.norm), _pooler(model, embed))
    require(pool in ("token", "avg"), f"pooling {pool!r}")
    if not model.num_classes:
        require(not last, "a norm of the mean of its tokens and no classes behind it")
        return Features(norm_of(model.norm), Pooler() if pool == "token" else None)
    behind = bool(embed.prefix) and not model.pool_include_prefix
    return Classify(
        model.num_classes,
        "class" if pool == "token" else "patches" if behind else "mean",
        norm_of(model.fc_norm if last else model.norm),
        norm_last=last,
        distill=embed.class_tokens == 2,
    )


def _pooler(model: Any, embed: Patch) -> AttentionPooler:
    """A learned token that attends to all tokens (SigLIP)."""
    pool = model.attn_pool
    kind = type(pool).__name__
    require(kind == "AttentionPoolLatent", f"a {kind} that pools its tokens")
    alone = pool.latent_len == 1 and pool.pos_embed is None and pool.mlp is not None
    require(alone and plain(pool.q_norm) and not plain(pool.q), "another form of pooling by attention")
    require(model.pool_include_prefix or not embed.prefix, "pooling by attention that leaves class tokens out")
    norm, biases = norm_of(pool.norm), (pool.q.bias is not None, pool.kv.bias is not None)
    require(norm is not None and biases[0] == biases[1], "another form of pooling by attention")
    asks = ClassAttention(pool.num_heads, pool.head_dim, biases[0], pool.proj.bias is not None)
    return AttentionPooler(asks, _mlp(pool.mlp), norm)  # type: ignore[arg-type]


def norm_of(module: nn.Module | None) -> Norm | None:
    """The record of a norm, None for an empty place."""
    if plain(module):
        return None
    kind = NORMS.get(type(module).__name__)
    require(kind is not None, f"a {type(module).__name__} for a norm")
    return Norm(kind, module.eps)  # type: ignore[arg-type, union-attr]


def _layer(block: Any) -> tuple[Residual, Residual]:
    """The two branches of timm's usual block."""
    return (
        Residual(_attention(block.attn), norm_of(block.norm1), scaled=_scale(block.ls1)),
        Residual(_mlp(block.mlp), norm_of(block.norm2), scaled=_scale(block.ls2)),
    )


def _parallel(block: Any) -> tuple[Residual, Residual]:
    """Attentions side by side are one attention with all their heads, MLPs one with all their units: the gains and
    biases of their norms move into the matrices that read them, and layer scales into those before them."""
    attentions = [_attention(branch.attn) for branch in block.attns]
    mlps = [_mlp(branch.mlp) for branch in block.ffns]
    norms = {norm_of(branch.norm) for branch in (*block.attns, *block.ffns)}
    require(len({*attentions}) == len({*mlps}) == len(norms) == 1, "parallel branches that differ")
    (attention, mlp, norm), count = (attentions[0], mlps[0], norms.pop()), len(attentions)
    require(attention.qkv_bias and mlp.bias, "parallel branches without the biases that their norms would move into")
    attention = replace(attention, heads=count * attention.heads)
    return Residual(attention, norm), Residual(replace(mlp, mlp_dim=count * mlp.mlp_dim), norm)


def folded_away(model: Any) -> int:
    """Parameters that a record does without. Of parallel branches: all norms of a sum of branches but one, all biases of
    the sum but one, and layer scales. Of registers: their positions, which are part of them."""
    spare = 0
    if getattr(model, "num_reg_tokens", 0) and not getattr(model, "no_embed_class", True):
        spare += model.num_reg_tokens * model.embed_dim
    for block in getattr(model, "blocks", ()):
        for branches, name in ((getattr(block, "attns", ()), "attn.proj"), (getattr(block, "ffns", ()), "mlp.fc2")):
            spare += sum(p.numel() for branch in branches[1:] for p in branch.norm.parameters())
            spare += sum(branch.get_submodule(name).bias.numel() for branch in branches[1:])
            spare += sum(p.numel() for branch in branches for p in branch.ls.parameters())
    return spare


def _attention(module: Any) -> Attention:
    kind = type(module).__name__
    require(kind == "Attention", f"attention of the class {kind}")
    require(plain(getattr(module, "norm", None)), "norms inside its attention")
    require(getattr(module, "gate", None) is None, "a gate after its attention")
    norms = {norm_of(module.q_norm), norm_of(module.k_norm)}
    require(len(norms) == 1, "different norms of queries and of keys")
    return Attention(
        module.num_heads,
        module.head_dim,
        qkv_bias=module.qkv.bias is not None,
        out_bias=module.proj.bias is not None,
        qk_norm=norms.pop(),
    )


def _mlp(module: Any) -> Mlp:
    kind = type(module).__name__
    require(kind in MLPS and not getattr(module, "gate_last", False), f"an MLP of the class {kind}")
    require(plain(getattr(module, "norm", None)), "a norm inside its MLP")
    return Mlp(module.fc2.in_features, _act(module), MLPS[kind], module.fc2.bias is not None)


def _act(mlp: Any) -> Act:
    act = mlp.act
    name = type(act).__name__
    require(name in ACTS, f"a {name} in its MLP")
    return "gelu_tanh" if name == "GELU" and act.approximate == "tanh" else ACTS[name]


def _scale(module: nn.Module) -> float | None:
    """The value that a layer scale starts from, None without one."""
    return None if plain(module) else float(module.init_values)  # type: ignore[arg-type]
