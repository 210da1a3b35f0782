"""Crammed BERT (2212.14034): BERT for a day on one GPU. Pre-norm, gated MLP, no bias in any matrix, one learned scalar
on sinusoidal positions; predicts only the masked tokens."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from manyheads.nn.block import blocks
from manyheads.nn.embed import TokenEmbed
from manyheads.nn.heads import ClassifyHead, MaskedHead
from manyheads.nn.inputs import check_mask
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Classify, Masked, Token
from manyheads.spec.rates import Rates

from .init import embeddings, linears


class CrammedBert(nn.Module):
    """Tokens on a scaled sinusoid, blocks, a head: `Masked` (the vocabulary, tied) or `Classify` (GLUE)."""

    def __init__(self, arch: Arch, rates: Rates = Rates()) -> None:
        super().__init__()
        self.arch = arch
        width, embed, head = arch.stages[0].width, arch.embed, arch.head
        assert isinstance(embed, Token)
        assert isinstance(head, Masked | Classify)
        self.embed = TokenEmbed(width, embed, arch.stages[0].tokens)
        self.drop = nn.Dropout(rates.dropout)
        self.blocks = blocks(arch, rates, twice=False)
        self.head: MaskedHead | ClassifyHead
        if isinstance(head, Masked):
            self.head = MaskedHead(width, embed.vocab, head)
        else:
            self.head = ClassifyHead(width, head, rates)

    def features(
        self, ids: Int[Tensor, "batch tokens"], mask: Bool[Tensor, "batch tokens"] | None = None
    ) -> Float[Tensor, "batch tokens width"]:
        """Tokens after the last block, before the final norm. `mask` is True for a real token, False for padding."""
        x = self.drop(self.embed(ids))
        if mask is not None:
            check_mask(mask, ids)
            mask = mask[:, None, None]
        for block in self.blocks:
            x = block(x, mask)
        return x

    def forward(
        self,
        ids: Int[Tensor, "batch tokens"],
        mask: Bool[Tensor, "batch tokens"] | None = None,
        at: Int[Tensor, "batch chosen"] | None = None,
        targets: Int[Tensor, "batch chosen"] | None = None,
    ) -> Tensor:
        """Classes; or logits over the vocabulary of all tokens, or of those `at` the chosen positions alone; with
        `targets`, the mean cross-entropy of these (a target of -100 does not count)."""
        x = self.features(ids, mask)
        if isinstance(self.head, MaskedHead):
            return self.head(x, self.embed.vocab.weight, at, targets)
        given = at if at is not None else targets
        if given is not None:
            raise UserError(
                f"{given.shape[-1]} positions to predict were given to a model that classifies; leave them out"
            )
        return self.head(x, mask)

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
        elif self.head.bias is not None:
            nn.init.zeros_(self.head.bias)
