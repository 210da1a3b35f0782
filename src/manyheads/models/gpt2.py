"""GPT-2 in two dialects: OpenAI's (2019: tied head, GELU, biases everywhere) and the TinyStories one (an untied head
with a bias, ReLU, no bias on queries, keys and values). OPT and other decoders with learned positions are like it."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn

from manyheads.nn.block import blocks
from manyheads.nn.cache import Cache
from manyheads.nn.embed import TokenEmbed
from manyheads.nn.heads import LmHead
from manyheads.nn.inputs import Ids, Mask, check_places, key_mask
from manyheads.spec.arch import Arch
from manyheads.spec.parts import Lm, Token
from manyheads.spec.recipe import Rates

from .build import embeddings, linears


class GPT2(nn.Module):
    """Tokens and learned positions, blocks, the next token."""

    def __init__(self, arch: Arch, rates: Rates = Rates()) -> None:
        super().__init__()
        self.arch = arch
        width = arch.stages[0].width
        assert isinstance(arch.embed, Token)
        assert isinstance(arch.head, Lm)
        self.openai = arch.dialect == ""
        self.embed = TokenEmbed(width, arch.embed, arch.stages[0].tokens)
        self.drop = nn.Dropout(rates.dropout if self.openai else 0.0)
        self.blocks = blocks(arch, rates, twice=False)
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
        x = self.drop(self.embed(ids, places=places))
        keys = key_mask(mask, ids)
        for block in self.blocks:
            x = block(x, keys)
        return x

    def continued(self, ids: Ids, cache: Cache, places: Tensor | None = None) -> Float[Tensor, "batch tokens width"]:
        """Tokens after the last block. `ids` continue the tokens that `cache` holds, which stores their keys and values."""
        x = self.drop(self.embed(ids, places=cache.places(ids) if places is None else places))
        for block, kept in zip(self.blocks, cache.layers, strict=True):
            x = block(x, None, None, kept)
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
        """Every matrix and table N(0, 0.02), biases 0. OpenAI's dialect divides the std of what writes into the
        residual stream by sqrt(2 depth), the number of branches that add up there."""
        linears(self, std=0.02, cut=False)
        embeddings(self, std=0.02)
        if self.openai:
            for block in self.blocks:
                for out in (block.attention.op.out, block.mlp.op.out):
                    nn.init.normal_(out.weight, std=0.02 / (2 * len(self.blocks)) ** 0.5)


class OPT(GPT2):
    """OPT (2205.01068): a GPT-2 by another record, with another start. Nothing is scaled by depth, and the embedding has
    no dropout."""

    def __init__(self, arch: Arch, rates: Rates = Rates()) -> None:
        super().__init__(arch, rates)
        self.openai = False
        self.drop = nn.Dropout(0.0)
