"""transformers' vision models, tensor by tensor: ViT, DeiT, DINOv2, and the image towers of CLIP and SigLIP."""

from __future__ import annotations

from collections.abc import Sequence

from manyheads.spec.arch import Arch, mlps
from manyheads.spec.parts import AttentionPooler, Classify, Features, Patch

from .hf_names import attention_ops, pooler, prefix, qkv
from .tensors import Rows, Shape, TwinTensor, modules, same, stacked

FC = {"mlp.op.inp": "mlp.fc1", "mlp.op.out": "mlp.fc2"}


def _embed(arch: Arch, theirs: str, projection: str, positions: str, tokens: Sequence[str]) -> list[TwinTensor]:
    """Patches, positions (without a leading 1 where they are an embedding there) and class tokens."""
    embed, width = arch.embed, arch.stages[0].width
    assert isinstance(embed, Patch)
    rows = arch.stages[0].tokens - (embed.registers if embed.class_positions else embed.prefix)
    kernel = (width, embed.channels, embed.patch, embed.patch)
    flat = (width, embed.channels * embed.patch**2)
    shape = (rows, width) if positions.endswith(".weight") else (1, rows, width)
    tensors = [
        TwinTensor("embed.proj.weight", (f"{theirs}.{projection}.weight",), Shape(flat, kernel)),
        TwinTensor("embed.positions", (f"{theirs}.{positions}",), Shape((rows, width), shape)),
    ]
    if embed.bias:
        tensors += same("embed.proj", f"{theirs}.{projection}", ("bias",))
    if embed.class_tokens:
        tensors.append(
            TwinTensor("embed.class_tokens", tuple(f"{theirs}.{name}" for name in tokens), Rows(len(tokens)))
        )
    return tensors


def vit_layers(arch: Arch, name: str, tokens: Sequence[str]) -> list[TwinTensor]:
    """Embedding, layers and last norm of ViT, and of DeiT, which copied its code; `tokens` are the class tokens."""
    body = prefix(arch, name)
    tensors = _embed(arch, f"{body}embeddings", "patch_embeddings.projection", "position_embeddings", tokens)
    names = {
        "attention.norm": "layernorm_before",
        "attention.op.out": "attention.o_proj",
        "mlp.norm": "layernorm_after",
    }
    for i, op in enumerate(attention_ops(arch)):
        ours, theirs = f"blocks.{i}", f"{body}layers.{i}"
        tensors += qkv(ours, [f"{theirs}.attention.{part}_proj" for part in "qkv"], op)
        tensors += modules(ours, theirs, names | FC)
    return tensors + same("head.norm", f"{body}layernorm")


def vit_head(arch: Arch, name: str) -> list[TwinTensor]:
    """The classifier or the pooler."""
    if isinstance(arch.head, Features):
        return pooler(arch.head)
    return same("head.out", "classifier")


def deit(arch: Arch) -> list[TwinTensor]:
    """The map between our DeiT and transformers', which always has a distillation token: `Classify` is
    DeiTForImageClassification, with `distill` the one WithTeacher, `Features` is DeiTModel."""
    tensors = vit_layers(arch, "deit", ("cls_token", "distillation_token"))
    if isinstance(arch.head, Classify) and arch.head.distill:
        return tensors + same("head.out", "cls_classifier") + same("head.distill", "distillation_classifier")
    return tensors + vit_head(arch, "deit")


def dinov2(arch: Arch) -> list[TwinTensor]:
    """The map between our ViT in DINOv2's dialect and transformers' Dinov2Model, Dinov2WithRegistersModel, or the
    ForImageClassification of either."""
    embed, width = arch.embed, arch.stages[0].width
    assert isinstance(embed, Patch)
    body = prefix(arch, "dinov2_with_registers" if embed.registers else "dinov2")
    at = f"{body}embeddings"
    tensors = _embed(arch, at, "patch_embeddings.projection", "position_embeddings", ("cls_token",))
    if embed.mask_token:
        tensors.append(TwinTensor("embed.mask_token", (f"{at}.mask_token",), Shape((width,), (1, width))))
    if embed.registers:
        shape = Shape((embed.registers, width), (1, embed.registers, width))
        tensors.append(TwinTensor("embed.registers", (f"{at}.register_tokens",), shape))
    mlp = mlps(arch.stages[0])[0]
    names = {"attention.norm": "norm1", "attention.op.out": "attention.o_proj", "mlp.norm": "norm2"}
    names |= {"mlp.op.out": "mlp.down_proj"} if mlp.gated else FC
    for i, op in enumerate(attention_ops(arch)):
        ours, theirs = f"blocks.{i}", f"{body}encoder.layer.{i}"
        tensors += qkv(ours, [f"{theirs}.attention.{part}_proj" for part in "qkv"], op)
        tensors += modules(ours, theirs, names)
        if mlp.gated:
            halves = (f"{theirs}.mlp.gate_proj", f"{theirs}.mlp.up_proj")
            tensors += stacked(f"{ours}.mlp.op.inp", halves, (mlp.mlp_dim, mlp.mlp_dim))
        tensors.append(TwinTensor(f"{ours}.attention.scale", (f"{theirs}.layer_scale1.lambda1",)))
        tensors.append(TwinTensor(f"{ours}.mlp.scale", (f"{theirs}.layer_scale2.lambda1",)))
    return tensors + same("head.norm", f"{body}layernorm") + ([] if body == "" else same("head.out", "classifier"))


def tower(arch: Arch, body: str) -> list[TwinTensor]:
    """The layers of a tower of CLIP or SigLIP, of images or of text."""
    tensors: list[TwinTensor] = []
    names = {"attention.norm": "layer_norm1", "attention.op.out": "self_attn.out_proj", "mlp.norm": "layer_norm2"}
    for i, op in enumerate(attention_ops(arch)):
        ours, theirs = f"blocks.{i}", f"{body}encoder.layers.{i}"
        tensors += qkv(ours, [f"{theirs}.self_attn.{part}_proj" for part in "qkv"], op)
        tensors += modules(ours, theirs, names | FC)
    return tensors


def clip_image(arch: Arch) -> list[TwinTensor]:
    """The map between our ViT in CLIP's dialect and transformers' CLIPVisionModel, or the one WithProjection."""
    head = arch.head
    assert isinstance(head, Features)
    projection = pooler(head, "visual_projection")
    body = "vision_model." if projection else ""
    tensors = _embed(arch, f"{body}embeddings", "patch_embedding", "position_embedding.weight", ("class_embedding",))
    tensors = [_flat(arch, entry) for entry in tensors]
    tensors += same("embed.norm", f"{body}pre_layrnorm") + tower(arch, body)
    return tensors + same("head.pooler.norm", f"{body}post_layernorm") + projection


def _flat(arch: Arch, entry: TwinTensor) -> TwinTensor:
    """CLIP keeps its class token as a vector."""
    if entry.ours != "embed.class_tokens":
        return entry
    width = arch.stages[0].width
    return TwinTensor(entry.ours, entry.theirs, Shape((1, width), (width,)))


def siglip_image(arch: Arch) -> list[TwinTensor]:
    """The map between our ViT in SigLIP's dialect and transformers' SiglipVisionModel."""
    head, width = arch.head, arch.stages[0].width
    assert isinstance(head, Features)
    tensors = _embed(arch, "embeddings", "patch_embedding", "position_embedding.weight", ()) + tower(arch, "")
    tensors += same("head.norm", "post_layernorm")
    if not isinstance(head.pooler, AttentionPooler):
        return tensors
    at = "head.pooler"
    tensors.append(TwinTensor(f"{at}.latent", ("head.probe",), Shape((width,), (1, 1, width))))
    for name in ("weight", "bias"):
        tensors.append(TwinTensor(f"{at}.attention.qkv.{name}", (f"head.attention.in_proj_{name}",)))
    names = {"attention.out": "attention.out_proj", "norm": "layernorm", "mlp.inp": "mlp.fc1", "mlp.out": "mlp.fc2"}
    return tensors + modules(at, "head", names)
