"""Nyströmformer (2102.03902): the encoder of the LRA tasks, its two-document form, and the one in transformers.

LRA's is pre-norm, pools the mean of the tokens and has a hidden layer before the classes; transformers' is post-norm,
has segment types and a norm behind the embedding, and reads the first token. `Softmax` in place of `Nystrom` is the
exact peer of either.
"""

from __future__ import annotations

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from manyheads.nn.attention import SoftmaxAttention
from manyheads.nn.block import TransformerBlock, all_layers
from manyheads.nn.embed import TokenEmbed
from manyheads.nn.heads import ClassifyHead, PairHead, mean
from manyheads.nn.inputs import Ids, Mask, check_places, key_mask
from manyheads.nn.nystrom import NystromAttention
from manyheads.nn.residual import rising
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Attention, Classify, Layer, Nystrom, Pair, Softmax, Token
from manyheads.spec.recipe import Rates

from .build import embeddings, linears


def mixer(width: int, layer: Layer, rates: Rates) -> nn.Module:
    """The attention of a layer: Nyström's, or softmax attention in its exact peer."""
    op = layer[0].op
    assert isinstance(op, Attention)
    match op.mix:
        case Nystrom():
            return NystromAttention(width, op, rates)
        case Softmax(causal=False, rope=None):
            return SoftmaxAttention(width, op, rates)
        case mix:
            raise UserError(
                f"a nystromformer cannot mix tokens by {mix}; write Nystrom(...), or Softmax() for its exact peer"
            )


class Nystromformer(nn.Module):
    """Tokens, blocks, and a head: `Classify`, or `Pair` for two documents through one encoder.

    The caller hands in the padding mask: no token id stands for padding by itself. Padding changes no real token's
    result, and pooling divides by the number of real tokens."""

    def __init__(self, arch: Arch, rates: Rates = Rates()) -> None:
        super().__init__()
        self.arch = arch
        width, head = arch.stages[0].width, arch.head
        assert isinstance(arch.embed, Token)
        assert isinstance(head, Classify | Pair)
        self.embed = TokenEmbed(width, arch.embed, arch.stages[0].tokens)
        self.drop = nn.Dropout(rates.dropout)
        self.layers = [layer for _, layer in all_layers(arch)]
        paths = rising(rates.path, len(self.layers))
        self.blocks = nn.ModuleList(
            TransformerBlock(width, layer, rates, path, mixer=mixer(width, layer, rates))
            for layer, path in zip(self.layers, paths, strict=True)
        )
        self.head: ClassifyHead | PairHead
        if isinstance(head, Pair):
            self.head = PairHead(width, head)
        else:
            self.head = ClassifyHead(width, head, rates if head.pool == "class" else Rates())  # LRA's drops nothing

    def features(
        self,
        ids: Ids,
        mask: Mask | None = None,
        types: Int[Tensor, "batch tokens"] | None = None,
        places: Int[Tensor, "rows tokens"] | None = None,
    ) -> Float[Tensor, "batch tokens width"]:
        """Tokens after the last block. `mask` is True for a real token; without `types` all are of segment 0; `places`
        are the tokens' positions, by default 0, 1, 2 and so on. The exact peer also takes a mask of which keys each
        query sees."""
        if places is not None:
            check_places(places, ids, self.embed.tokens)
        if (
            mask is not None
            and mask.ndim == 4
            and any(isinstance(b.attention.op, NystromAttention) for b in self.blocks)
        ):
            raise UserError(
                f"the attention mask is of shape {tuple(mask.shape)}, with a number for every query and key; Nyström "
                "attention never forms that map. Give a padding mask (batch x tokens), or build the model with Softmax()"
            )
        x = self.drop(self.embed(ids, types, places))
        keys = key_mask(mask, ids)
        for block in self.blocks:  # Nyström attention looks at the tokens that are real, softmax attention at the keys
            x = block(x, mask if isinstance(block.attention.op, NystromAttention) else keys)
        return x

    def forward(
        self,
        ids: Ids | Int[Tensor, "batch 2 tokens"],
        mask: Mask | Bool[Tensor, "batch 2 tokens"] | None = None,
        types: Int[Tensor, "batch tokens"] | None = None,
        places: Int[Tensor, "rows tokens"] | None = None,
    ) -> Float[Tensor, "batch classes"]:
        """Logits of the classes. A pair model takes both documents as batch x 2 x tokens, masked alike, and reads them
        as one batch twice as large."""
        if isinstance(self.head, ClassifyHead):
            return self.head(self.features(ids, mask, types, places), mask)
        if ids.ndim != 3 or ids.shape[1] != 2 or (mask is not None and mask.shape != ids.shape):
            shapes = f"{tuple(ids.shape)}" + (f" with a mask of {tuple(mask.shape)}" if mask is not None else "")
            raise UserError(
                f"token ids are of shape {shapes}; this model compares two documents: batch x 2 x tokens, "
                "the mask the same"
            )
        ids, mask = ids.flatten(0, 1), None if mask is None else mask.flatten(0, 1)
        pooled = mean(self.head.norm(self.features(ids, mask, types, places)), mask)
        return self.head(*pooled.unflatten(0, (-1, 2)).unbind(1))

    def init(self) -> None:
        """Pre-norm, as LRA's code: tables N(0, 0.02), the rest as PyTorch starts it. Post-norm, as transformers: every
        matrix, filter and table N(0, 0.02), biases 0."""
        embeddings(self, std=0.02)
        post = self.layers[0][0].place == "post"
        if post:
            linears(self, std=0.02, cut=False)
        for part in self.modules():
            if isinstance(part, nn.Linear | nn.LayerNorm) and not post:
                part.reset_parameters()
            elif isinstance(part, NystromAttention):
                part.reset_skip(0.02 if post else None)
