"""A tiny twin of every family with its redesigns, and one batch to run each on."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from manyheads.arch import encoder_families as e
from manyheads.arch import families as f
from manyheads.arch.controls import depths, head_dims, heads
from manyheads.arch.redesign import redesign
from manyheads.spec.arch import Arch
from manyheads.spec.parts import Features, Norm, Pair, Points, Rope, Token

# fmt: off
ORIGINALS: dict[str, Arch] = {
    "vit": f.vit(32, 3, 2, 16, 64, image=32, patch=8, classes=7),
    "deit_distilled": f.vit(32, 3, 2, 16, 64, image=32, patch=8, classes=7, class_tokens=2, family="deit"),
    "dinov2": e.dinov2(32, 3, 2, 16, 48, image=32, patch=8, registers=3, gated=True, mask_token=False),
    "clip_image": e.clip_image(32, 3, 2, 16, 64, image=32, patch=8),
    "vit_features": f.vit(32, 3, 2, 16, 64, image=32, patch=8, head=Features(Norm(eps=1e-6))),
    "xcit": f.xcit(32, 3, 2, 16, 64, image=64, classes=7, scaled=1.0),
    "tnt": f.tnt(32, 3, 2, 16, 64, pixel_width=8, pixel_heads=2, pixel_head_dim=4, pixel_mlp_dim=16, image=32, classes=7),
    "tnt_legacy": f.tnt(32, 3, 2, 16, 64, pixel_width=8, pixel_heads=2, pixel_head_dim=4, pixel_mlp_dim=16, image=32,
                        classes=7, legacy=True),
    "volo": f.volo((16, 32, 32, 32), (2, 2, 2, 2), (2, 2, 2, 2), (8, 16, 16, 16), (32, 64, 64, 64), stem=8, image=64,
                   classes=7),
    "davit": f.davit((16, 24, 32, 40), (2, 2, 2, 2), (2, 2, 2, 2), (8, 12, 16, 20), (32, 48, 64, 80), image=64, classes=7),
    "crammed_bert": f.crammed_bert(32, 3, 2, 16, 48, vocab=50, tokens=12),
    "bert": f.bert(32, 3, 2, 16, 64, vocab=50, tokens=12, positions=16),
    "roberta": e.roberta(32, 3, 2, 16, 64, vocab=50, tokens=12),
    "clip_text": e.clip_text(32, 3, 2, 16, 64, vocab=50, tokens=12),
    "bert_features": f.bert(32, 3, 2, 16, 64, vocab=50, tokens=12, positions=16, head=Features()),
    "gpt2": f.gpt2(32, 3, 2, 16, 64, vocab=50, tokens=12, positions=16),
    "gpt2_tinystories": f.stories(30, 3, 2, 14, 64, vocab=50, tokens=12),
    "llama": f.llama(32, 3, 4, 16, 64, kv_heads=2, vocab=50, tokens=12, rope=Rope(), tied=False),
    "qwen3": f.llama(32, 3, 4, 16, 64, kv_heads=2, vocab=50, tokens=12, rope=Rope(), tied=True, qk_norm=True),
    "mistral": f.windowed(f.llama(32, 3, 4, 16, 64, kv_heads=2, vocab=50, tokens=12, rope=Rope(), tied=False), 5),
    "gemma2": f.gemma2(32, 4, 4, 16, 64, kv_heads=2, vocab=50, tokens=12, window=5),
    "gemma3": f.gemma3(32, 12, 4, 16, 64, kv_heads=2, vocab=50, tokens=12, window=5),
    "gpt_neox": f.gpt_neox(32, 3, 2, 16, 64, vocab=50, tokens=12),
    "opt": f.opt(32, 3, 2, 16, 64, vocab=50, tokens=12),
    "nystromformer": f.nystromformer(32, 3, 2, 16, 64, vocab=50, tokens=24, classes=7, landmarks=8, conv=5, head_hidden=16),
    "nystromformer_pair": f.nystromformer(32, 3, 2, 16, 64, vocab=50, tokens=24, classes=2, landmarks=8, pair=True,
                                          head_hidden=16),
    "nearest_neighbor": f.nearest_neighbor(16, 3, 2, 8, 64, tokens=6),
    "stack": f.stack(16, 3, 4, 8, 64, tokens=6, kv_heads=2, gated=True),
}
# fmt: on


def variants(name: str) -> dict[str, Arch]:
    """Original, lean with fixed heads, lean with split heads."""
    arch = ORIGINALS[name]
    shallow = [max(1, d - 1) for d in depths(arch)]
    more = [2 * h for h in heads(arch)]
    return {
        "original": arch,
        "fixed": redesign(arch, depth=shallow, heads=more),
        "split": redesign(arch, depth=shallow, heads=more, head_dim=[d // 2 for d in head_dims(arch)], policy="split"),
    }


def inputs(arch: Arch, batch: int = 2, device: str = "cpu", dtype: torch.dtype = torch.float32) -> tuple[Tensor, ...]:
    """A batch that the model of `arch` takes."""
    generator = torch.Generator().manual_seed(3)
    embed, tokens = arch.embed, arch.stages[0].tokens
    if isinstance(embed, Token):
        shape = (batch, 2, tokens) if isinstance(arch.head, Pair) else (batch, tokens)
        return (torch.randint(0, embed.vocab, shape, generator=generator).to(device),)
    if isinstance(embed, Points):
        return (torch.randn(batch, tokens, embed.dim, generator=generator).to(device, dtype),)
    return (torch.randn(batch, embed.channels, embed.image, embed.image, generator=generator).to(device, dtype),)


def empty(arch: Arch, batch: int = 1) -> tuple[Tensor, ...]:
    """The same on the meta device, nothing allocated."""
    return tuple(t.to("meta") for t in inputs(arch, batch))


def scalar(model: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
    """Something to differentiate, which every parameter has a part in."""
    out, head = model(*batch), model.arch.head
    total = out.float().pow(2).mean()
    if isinstance(head, Features) and head.pooler is not None:
        ids = batch[0] if isinstance(model.arch.embed, Token) else None
        total = total + model.head.pooled(out, ids).float().pow(2).mean()
    return total
