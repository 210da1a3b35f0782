"""Llama (2302.13971, 2407.21783) and the decoders built like it, such as Mistral, Qwen, Gemma and GPT-NeoX.

Their positions are rotary, and enter in the attention alone. In what they differ, the record says: norms and where they
stand, gated or plain MLPs, grouped queries, windows, and what is multiplied by a number or capped."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn

from manyheads.nn.block import all_layers, blocks
from manyheads.nn.cache import Cache
from manyheads.nn.embed import TokenEmbed
from manyheads.nn.heads import LmHead
from manyheads.nn.inputs import Ids, Mask, check_places, key_mask
from manyheads.nn.positions import Rotary
from manyheads.spec.arch import Arch
from manyheads.spec.parts import Attention, Layer, Lm, Rope, RopeLlama3, Softmax, Token
from manyheads.spec.recipe import Rates

from .build import embeddings, linears


class Llama(nn.Module):
    """Tokens, blocks, the next token. Positions enter only in the attention, and in some layers not even there."""

    def __init__(self, arch: Arch, rates: Rates = Rates()) -> None:
        super().__init__()
        self.arch = arch
        width, tokens = arch.stages[0].width, arch.stages[0].tokens
        assert isinstance(arch.embed, Token)
        assert isinstance(arch.head, Lm)
        self.embed = TokenEmbed(width, arch.embed, tokens)
        self.drop = nn.Dropout(rates.dropout)
        self.blocks = blocks(arch, rates)
        kinds = [rotary_of(layer) for _, layer in all_layers(arch)]
        turns = list(dict.fromkeys(kind for kind in kinds if kind is not None))  # layers alike share one table
        self.rotary = nn.ModuleList(Rotary(rope, head_dim, tokens) for rope, head_dim in turns)
        self.turns = [None if kind is None else turns.index(kind) for kind in kinds]
        self.head = LmHead(width, arch.embed.vocab, arch.head)

    def features(
        self,
        ids: Ids,
        mask: Mask | None = None,
        cache: Cache | None = None,
        places: Int[Tensor, "rows tokens"] | None = None,
    ) -> Float[Tensor, "batch tokens width"]:
        """Tokens after the last block, before the final norm. `mask` is True for a real token, False for padding, or
        says which keys each query sees; `places` are the tokens' positions, by default 0, 1, 2 and so on. With `cache`,
        `ids` continue the tokens that it holds."""
        if places is not None:
            check_places(places, ids, self.embed.tokens)
        if cache is not None:
            return self.continued(ids, cache, places)
        x = self.drop(self.embed(ids))
        keys = key_mask(mask, ids)
        tables = [rotary(0, ids.shape[1]) if places is None else rotary.at(places) for rotary in self.rotary]
        for block, i in zip(self.blocks, self.turns, strict=True):
            x = block(x, keys, None if i is None else tables[i])
        return x

    def continued(self, ids: Ids, cache: Cache, places: Tensor | None = None) -> Float[Tensor, "batch tokens width"]:
        """Tokens after the last block. `ids` continue the tokens that `cache` holds, which stores their keys and values."""
        x = self.drop(self.embed(ids))
        places = cache.places(ids) if places is None else places
        tables = [rotary.at(places) for rotary in self.rotary]
        for block, i, kept in zip(self.blocks, self.turns, cache.layers, strict=True):
            x = block(x, None, None if i is None else tables[i], kept)
        return x

    def forward(
        self,
        ids: Ids,
        mask: Mask | None = None,
        targets: Int[Tensor, "batch tokens"] | None = None,
        places: Int[Tensor, "rows tokens"] | None = None,
    ) -> Tensor:
        """Logits of the token that follows each, batch x tokens x vocab; with `targets`, their mean cross-entropy.

        `mask` and `places` as in `features`; a target of -100 does not count."""
        return self.head(self.features(ids, mask, places=places), self.embed.vocab.weight, targets)

    def init(self) -> None:
        """transformers' defaults: every matrix and the vocabulary N(0, 0.02), biases 0, norms 1."""
        linears(self, std=0.02, cut=False)
        embeddings(self, std=0.02)


def rotary_of(layer: Layer) -> tuple[Rope | RopeLlama3, int] | None:
    """The rotary positions of a layer's attention and the head_dim they turn, or None for a layer without positions."""
    op = layer[0].op
    assert isinstance(op, Attention)
    assert isinstance(op.mix, Softmax)
    return None if op.mix.rope is None else (op.mix.rope, op.head_dim)
