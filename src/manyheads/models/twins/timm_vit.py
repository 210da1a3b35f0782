"""timm's VisionTransformer, tensor by tensor, in all the forms that a record describes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from manyheads.spec.arch import Arch, layers
from manyheads.spec.parts import Attention, AttentionPooler, Classify, Features, Layer, Mlp, Norm, Patch

from .tensors import Conversion, Rows, Shape, TwinTensor, same, stacked

MLP = {"mlp.norm": "norm2", "mlp.op.inp": "mlp.fc1", "mlp.op.out": "mlp.fc2"}
BLOCK = {"attention.norm": "norm1", "attention.op.qkv": "attn.qkv", "attention.op.out": "attn.proj"} | MLP
HEAD = [*same("head.norm", "norm"), *same("head.out", "head")]


def rows(ours: str, theirs: str, count: int, width: int) -> TwinTensor:
    """A table of vectors, which timm keeps as 1 x count x width."""
    return TwinTensor(ours, (theirs,), Shape((count, width), (1, count, width)))


def vit(arch: Arch, theirs: Collection[str] = ()) -> list[TwinTensor]:
    """The map between our ViT and timm's VisionTransformer (also its distilled DeiT). timm has one record in several
    forms: branches of a layer side by side, gate and value of an MLP apart. The names of its tensors, `theirs`, tell
    them; without names the map is to its usual form."""
    tensors = _embedding(arch, arch.stages[0].width)
    records = [layer for stage in arch.stages for _ in range(stage.depth) for layer in layers(stage)]
    for i, layer in enumerate(records):
        at = f"blocks.{i}"
        count = sum(name.startswith(f"{at}.attns.") and name.endswith(".norm.weight") for name in theirs)
        if count:
            tensors += _parallel(at, layer, count, scaled=f"{at}.attns.0.ls.gamma" in theirs)
        else:
            tensors += _layer(at, layer, split=f"{at}.mlp.fc1_g.weight" in theirs)
    return tensors + _head(arch)


def _head(arch: Arch) -> list[TwinTensor]:
    head = arch.head
    if isinstance(head, Features):
        return _norm("head.norm", "norm", head.norm) + _pooler(head, arch.stages[-1].width)
    assert isinstance(head, Classify)
    tensors = _norm("head.norm", "fc_norm" if head.norm_last else "norm", head.norm) + same("head.out", "head")
    return tensors + (same("head.distill", "head_dist") if head.distill else [])


def _pooler(head: Features, width: int) -> list[TwinTensor]:
    """The learned token of a pooler, its attention, whose queries are a matrix of their own there, and its MLP."""
    spec, at = head.pooler, "head.pooler"
    if not isinstance(spec, AttentionPooler):
        return []
    op, parts = spec.attention, ("attn_pool.q", "attn_pool.kv")
    return [
        TwinTensor(f"{at}.latent", ("attn_pool.latent",), Shape((width,), (1, 1, width))),
        *stacked(f"{at}.attention.qkv", parts, (op.inner, 2 * op.inner), bias=op.qkv_bias),
        *_linear(f"{at}.attention.out", "attn_pool.proj", op.out_bias),
        *_norm(f"{at}.norm", "attn_pool.norm", spec.norm),
        *_linear(f"{at}.mlp.inp", "attn_pool.mlp.fc1", spec.mlp.bias),
        *_linear(f"{at}.mlp.out", "attn_pool.mlp.fc2", spec.mlp.bias),
    ]


def _embedding(arch: Arch, width: int) -> list[TwinTensor]:
    """Patches, positions, class tokens, registers, and the norm over all of them."""
    embed = arch.embed
    assert isinstance(embed, Patch)
    places = (embed.image // embed.patch) ** 2 + (embed.class_tokens if embed.class_positions else 0)
    kernel = (width, embed.channels, embed.patch, embed.patch)
    flat = (width, embed.channels * embed.patch**2)
    tensors = [
        TwinTensor("embed.proj.weight", ("patch_embed.proj.weight",), Shape(flat, kernel)),
        *_norm("embed.norm", "norm_pre", embed.norm),
    ]
    if embed.bias:
        tensors.append(TwinTensor("embed.proj.bias", ("patch_embed.proj.bias",)))
    if embed.class_tokens:
        names = ("cls_token", "dist_token")[: embed.class_tokens]
        tensors.append(TwinTensor("embed.class_tokens", names, Rows(len(names))))
    if embed.registers and embed.class_positions:  # there registers have positions, which are part of them here
        front, count = embed.class_tokens, embed.registers
        tensors.append(TwinTensor("embed.positions", ("pos_embed",), WithoutRegisters(front, count)))
        tensors.append(TwinTensor("embed.registers", ("reg_token",), PlacedRegisters(front, count), ("pos_embed",)))
        return tensors
    tensors.append(rows("embed.positions", "pos_embed", places, width))
    if embed.registers:
        tensors.append(rows("embed.registers", "reg_token", embed.registers, width))
    return tensors


@dataclass(frozen=True, slots=True)
class WithoutRegisters(Conversion):
    """Positions without those of the registers, which stand behind the `front` ones of class tokens; on the way back
    these are 0."""

    front: int
    count: int

    def into(self, theirs: Sequence[Tensor]) -> Tensor:
        """The rows of class tokens and patches."""
        table = theirs[0][0]
        return torch.cat((table[: self.front], table[self.front + self.count :]))

    def back(self, ours: Tensor) -> list[Tensor]:
        """All rows, 0 for the registers."""
        empty = ours.new_zeros(self.count, ours.shape[1])
        return [torch.cat((ours[: self.front], empty, ours[self.front :]))[None]]


@dataclass(frozen=True, slots=True)
class PlacedRegisters(Conversion):
    """Registers with their positions added."""

    front: int
    count: int

    def into(self, theirs: Sequence[Tensor]) -> Tensor:
        """`theirs` are the registers, then all positions."""
        return theirs[0][0] + theirs[1][0, self.front : self.front + self.count]

    def back(self, ours: Tensor) -> list[Tensor]:
        """The registers, whose positions are 0."""
        return [ours[None].clone()]


def _norm(ours: str, theirs: str, norm: Norm | None) -> list[TwinTensor]:
    """A norm has a weight, and a bias unless it is of kind `rms`."""
    if norm is None:
        return []
    return same(ours, theirs, ("weight",) if norm.kind == "rms" else ("weight", "bias"))


def _linear(ours: str, theirs: str, bias: bool) -> list[TwinTensor]:
    return same(ours, theirs, ("weight", "bias") if bias else ("weight",))


def _layer(at: str, layer: Layer, *, split: bool) -> list[TwinTensor]:
    """Attention and MLP as the record has them; `split`: gate and value of the MLP are two maps there."""
    attention, mlp = layer
    op, hidden = attention.op, mlp.op
    assert isinstance(op, Attention)
    assert isinstance(hidden, Mlp)
    tensors = [
        *_norm(f"{at}.attention.norm", f"{at}.norm1", attention.norm),
        *_linear(f"{at}.attention.op.qkv", f"{at}.attn.qkv", op.qkv_bias),
        *_norm(f"{at}.attention.op.q_norm", f"{at}.attn.q_norm", op.qk_norm),
        *_norm(f"{at}.attention.op.k_norm", f"{at}.attn.k_norm", op.qk_norm),
        *_linear(f"{at}.attention.op.out", f"{at}.attn.proj", op.out_bias),
        *_norm(f"{at}.mlp.norm", f"{at}.norm2", mlp.norm),
        *_linear(f"{at}.mlp.op.out", f"{at}.mlp.fc2", hidden.bias),
    ]
    if split:
        parts, sizes = (f"{at}.mlp.fc1_g", f"{at}.mlp.fc1_x"), (hidden.mlp_dim, hidden.mlp_dim)
        tensors += stacked(f"{at}.mlp.op.inp", parts, sizes, bias=hidden.bias)
    else:
        tensors += _linear(f"{at}.mlp.op.inp", f"{at}.mlp.fc1", hidden.bias)
    for name, number, branch in (("attention", 1, attention), ("mlp", 2, mlp)):
        if branch.scaled is not None:
            tensors.append(TwinTensor(f"{at}.{name}.scale", (f"{at}.ls{number}.gamma",)))
    return tensors


# ------------------------------------------------------------------------------------------ branches side by side there
def _parallel(at: str, layer: Layer, count: int, *, scaled: bool) -> list[TwinTensor]:
    """`count` attentions side by side are one with all their heads, MLPs side by side one with all their units. What
    theirs has for each branch and ours once is moved: gains and biases of norms into the matrices that read them,
    layer scales, where it has them, into the matrices before them."""
    attention, mlp = layer
    op, hidden = attention.op, mlp.op
    assert isinstance(op, Attention)
    assert isinstance(hidden, Mlp)
    tensors = []
    for name, branches, inp, out, ours, inner, groups in (
        ("attention", "attns", "attn.qkv", "attn.proj", "qkv", op.inner, 3),
        ("mlp", "ffns", "mlp.fc1", "mlp.fc2", "inp", hidden.mlp_dim, 1),
    ):
        branch = [f"{at}.{branches}.{i}" for i in range(count)]
        read, write = [f"{b}.{inp}" for b in branch], [f"{b}.{out}" for b in branch]
        gains, shifts = [f"{b}.norm.weight" for b in branch], [f"{b}.norm.bias" for b in branch]
        scales = [f"{b}.ls.gamma" for b in branch] if scaled else []
        here, rows_in = f"{at}.{name}.op", (inner // count,) * count
        matrices, biases = [f"{n}.weight" for n in read], [f"{n}.bias" for n in read]
        tensors += [
            TwinTensor(f"{at}.{name}.norm.weight", tuple(gains), MovedNorm(count, 1.0)),
            TwinTensor(f"{at}.{name}.norm.bias", tuple(shifts), MovedNorm(count, 0.0)),
            TwinTensor(f"{here}.{ours}.weight", tuple(matrices), AfterNorms(rows_in, groups), tuple(gains)),
            TwinTensor(f"{here}.{ours}.bias", tuple(biases), BiasAfterNorms(rows_in, groups), (*matrices, *shifts)),
            TwinTensor(f"{here}.out.weight", (*(f"{n}.weight" for n in write), *scales), SideBySide(rows_in, scaled)),
            TwinTensor(f"{here}.out.bias", tuple(f"{n}.bias" for n in write), SummedBias(count), tuple(scales)),
        ]
    return tensors


def _grouped(parts: Sequence[Tensor], groups: int) -> Tensor:
    """Rows of several maps in one: in each of `groups` (queries, keys, values) those of all maps, one after another."""
    return torch.cat([row for group in zip(*(part.chunk(groups) for part in parts), strict=True) for row in group])


def _apart(whole: Tensor, sizes: tuple[int, ...], groups: int) -> list[Tensor]:
    """The rows of each map again."""
    pieces = [group.split(sizes) for group in whole.chunk(groups)]
    return [torch.cat(rows) for rows in zip(*pieces, strict=True)]


@dataclass(frozen=True, slots=True)
class MovedNorm(Conversion):
    """A norm whose gain or bias has moved elsewhere: 1 or 0 here. On the way back all branches have ours."""

    count: int
    value: float

    def into(self, theirs: Sequence[Tensor]) -> Tensor:
        """1 or 0."""
        return torch.full_like(theirs[0], self.value)

    def back(self, ours: Tensor) -> list[Tensor]:
        """The same for each branch."""
        return [ours.clone() for _ in range(self.count)]


@dataclass(frozen=True, slots=True)
class AfterNorms(Conversion):
    """The matrices after the norms of several branches, one below the other, with the gains of those norms in them."""

    sizes: tuple[int, ...]
    groups: int

    def into(self, theirs: Sequence[Tensor]) -> Tensor:
        """`theirs` are the matrices, then the gains."""
        matrices, gains = theirs[: len(self.sizes)], theirs[len(self.sizes) :]
        return _grouped([matrix * gain for matrix, gain in zip(matrices, gains, strict=True)], self.groups)

    def back(self, ours: Tensor) -> list[Tensor]:
        """The rows of each branch."""
        return _apart(ours, self.sizes, self.groups)


@dataclass(frozen=True, slots=True)
class BiasAfterNorms(Conversion):
    """The biases of those matrices, with the biases of the norms carried through the matrices."""

    sizes: tuple[int, ...]
    groups: int

    def into(self, theirs: Sequence[Tensor]) -> Tensor:
        """`theirs` are the biases, then the matrices, then the biases of the norms."""
        count = len(self.sizes)
        biases, matrices, shifts = theirs[:count], theirs[count : 2 * count], theirs[2 * count :]
        parts = [b + m @ shift for b, m, shift in zip(biases, matrices, shifts, strict=True)]
        return _grouped(parts, self.groups)

    def back(self, ours: Tensor) -> list[Tensor]:
        """The rows of each branch."""
        return _apart(ours, self.sizes, self.groups)


@dataclass(frozen=True, slots=True)
class SideBySide(Conversion):
    """The last matrices of several branches side by side, with the branches' layer scales in them."""

    sizes: tuple[int, ...]
    scaled: bool

    def into(self, theirs: Sequence[Tensor]) -> Tensor:
        """`theirs` are the matrices, then the layer scales."""
        matrices, scales = theirs[: len(self.sizes)], theirs[len(self.sizes) :]
        if self.scaled:
            matrices = [scale[:, None] * matrix for matrix, scale in zip(matrices, scales, strict=True)]
        return torch.cat(list(matrices), dim=1)

    def back(self, ours: Tensor) -> list[Tensor]:
        """The columns of each branch, and layer scales of 1."""
        matrices = [part.contiguous() for part in ours.split(self.sizes, dim=1)]
        scales = [ours.new_ones(ours.shape[0]) for _ in self.sizes]
        return [*matrices, *scales] if self.scaled else matrices


@dataclass(frozen=True, slots=True)
class SummedBias(Conversion):
    """The sum of the biases of those matrices, each times its layer scale."""

    count: int

    def into(self, theirs: Sequence[Tensor]) -> Tensor:
        """`theirs` are the biases, then the layer scales."""
        biases, scales = theirs[: self.count], theirs[self.count :]
        return torch.stack([b * s for b, s in zip(biases, scales, strict=True)] if scales else list(biases)).sum(dim=0)

    def back(self, ours: Tensor) -> list[Tensor]:
        """Ours for the first branch, 0 for the others."""
        return [ours, *(torch.zeros_like(ours) for _ in range(self.count - 1))]
