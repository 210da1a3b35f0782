"""BERT (1810.04805) and Crammed BERT (2212.14034). They predict masked tokens, classify, or give their tokens.

BERT is post-norm, with learned positions and segment types. Crammed BERT is trained for a day on one GPU: pre-norm,
a gated MLP, no bias in any matrix, sinusoidal positions times one learned scalar; its sparse head predicts only the
masked tokens. All of that is in the record; only the initial weights differ here.

BERT has dialects: RoBERTa's (1907.11692) and those of the text towers of CLIP (2103.00020) and SigLIP (2303.15343).
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from manyheads.nn.block import blocks
from manyheads.nn.embed import TokenEmbed
from manyheads.nn.heads import ClassifyHead, FeaturesHead, MaskedHead
from manyheads.nn.inputs import Ids, Mask, check_places, key_mask
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Classify, Features, Masked, Token
from manyheads.spec.recipe import Rates

from . import towers
from .build import embeddings, linears


class Bert(nn.Module):
    """Tokens, positions and segments, blocks, a head: `Masked` (the vocabulary, tied), `Classify` or `Features` (none)."""

    def __init__(self, arch: Arch, rates: Rates = Rates()) -> None:
        super().__init__()
        self.arch = arch
        width, embed, head = arch.stages[0].width, arch.embed, arch.head
        assert isinstance(embed, Token)
        assert isinstance(head, Masked | Classify | Features)
        self.embed = TokenEmbed(width, embed, arch.stages[0].tokens)
        self.drop = nn.Dropout(rates.dropout)
        self.blocks = blocks(arch, rates, twice=False)
        self.head: MaskedHead | ClassifyHead | FeaturesHead
        match head:
            case Masked():
                self.head = MaskedHead(width, embed.vocab, head, embed.norm.eps if embed.norm else 1e-12)
            case Classify():
                self.head = ClassifyHead(width, head, rates)
            case Features():
                self.head = FeaturesHead(width, head)

    def features(
        self,
        ids: Ids,
        mask: Mask | None = None,
        types: Int[Tensor, "batch tokens"] | None = None,
        places: Int[Tensor, "rows tokens"] | None = None,
    ) -> Float[Tensor, "batch tokens width"]:
        """Tokens after the last block. `mask` is True for a real token, or says which keys each query sees; without
        `types` all are of segment 0; `places` are the tokens' positions, by default 0, 1, 2 and so on."""
        if places is not None:
            check_places(places, ids, self.embed.tokens)
        if places is None and self.arch.dialect == "roberta":
            places = real_places(ids, self.embed.spec.first - 1)
        x = self.drop(self.embed(ids, types, places))
        keys = key_mask(mask, ids)
        for block in self.blocks:
            x = block(x, keys)
        return x

    def forward(
        self,
        ids: Ids,
        mask: Mask | None = None,
        types: Int[Tensor, "batch tokens"] | None = None,
        at: Int[Tensor, "batch chosen"] | None = None,
        targets: Int[Tensor, "batch chosen"] | None = None,
        places: Int[Tensor, "rows tokens"] | None = None,
    ) -> Tensor:
        """Classes; from a model without a head, the tokens; or logits over the vocabulary of all tokens, or of those `at`
        the chosen positions alone; with `targets`, the mean cross-entropy of these (a target of -100 does not count). The
        rest as in `features`."""
        x = self.features(ids, mask, types, places)
        if isinstance(self.head, MaskedHead):
            return self.head(x, self.embed.vocab.weight, at, targets)
        chosen = at if at is not None else targets
        if chosen is not None:
            raise UserError(
                f"{chosen.shape[-1]} positions to predict were given to a model that predicts no tokens; leave them out"
            )
        return self.head(x, mask)

    @torch.no_grad()
    def init(self) -> None:
        """Every matrix and table N(0, 0.02), biases 0; the vocabulary's row of padding, row 0, is 0. RoBERTa's padding has
        another row, in the table of positions too. CLIP and SigLIP are in `towers`."""
        linears(self, std=0.02, cut=False)
        embeddings(self, std=0.02)
        match self.arch.dialect:
            case "":
                self.embed.vocab.weight[0] = 0.0
            case "roberta":
                padding = self.embed.spec.first - 1
                self.embed.vocab.weight[padding] = 0.0
                self.embed.positions.weight[padding] = 0.0
            case "clip":
                towers.clip(self)
            case "siglip":
                towers.siglip(self)


def real_places(ids: Ids, padding: int) -> Int[Tensor, "batch tokens"] | None:
    """The position of each token among those that are not `padding`, and -1 for padding, so that it reads the row before
    the first. None for vectors in place of ids, which do not say what is padding."""
    if ids.is_floating_point():
        return None
    real = (ids != padding).long()
    return real.cumsum(dim=1) * real - 1


class CrammedBert(Bert):
    """BERT by another record, with another start, and without segments."""

    def forward(
        self,
        ids: Ids,
        mask: Mask | None = None,
        at: Int[Tensor, "batch chosen"] | None = None,
        targets: Int[Tensor, "batch chosen"] | None = None,
        places: Int[Tensor, "rows tokens"] | None = None,
    ) -> Tensor:
        """As `Bert.forward`, where all tokens are of one segment."""
        return super().forward(ids, mask, None, at, targets, places)

    @torch.no_grad()
    def init(self) -> None:
        """Every matrix and table N(0, 0.02), biases 0, the sinusoid's scalar 1/sqrt(width). Nothing is scaled by depth.

        The vocabulary's row of padding, row 0, is 0 in a classifier only: the original draws a tied head's matrix last,
        and so that row once more."""
        linears(self, std=0.02, cut=False)
        embeddings(self, std=0.02)
        if self.embed.sinusoid is not None:
            nn.init.constant_(self.embed.sinusoid.scale, self.arch.stages[0].width ** -0.5)
        if isinstance(self.head, ClassifyHead):
            self.embed.vocab.weight[0] = 0.0
