"""Small language models of every kind, for the tests."""

from __future__ import annotations

from manyheads.arch.families import bert, crammed_bert, gemma2, gemma3, gpt2, gpt_neox, llama, opt, stories, windowed
from manyheads.spec.arch import Arch
from manyheads.spec.parts import Classify, Norm, Rope, RopeLlama3

VOCAB, TOKENS = 61, 16
_SIZE = (32, 2, 4, 8, 64)
_LLAMA = {"vocab": VOCAB, "tokens": TOKENS}

CAUSAL: dict[str, Arch] = {
    "gpt2": gpt2(*_SIZE, vocab=VOCAB, tokens=TOKENS, positions=TOKENS),
    "gpt2_tinystories": stories(*_SIZE, vocab=VOCAB, tokens=TOKENS),
    "llama": llama(*_SIZE, kv_heads=2, rope=RopeLlama3(), tied=False, **_LLAMA),
    "windows": windowed(llama(*_SIZE, kv_heads=2, rope=Rope(), tied=True, **_LLAMA), 5),
    "gemma2": gemma2(32, 4, 4, 8, 64, kv_heads=2, window=5, **_LLAMA),
    "gemma3": gemma3(32, 12, 4, 8, 64, kv_heads=2, window=5, **_LLAMA),
    "gpt_neox": gpt_neox(*_SIZE, rope=Rope(share=0.5), **_LLAMA),
    "opt": opt(*_SIZE, **_LLAMA),
    "qwen3": llama(*_SIZE, kv_heads=2, rope=Rope(), tied=True, qk_norm=True, **_LLAMA),
}
BOTH_WAYS: dict[str, Arch] = {
    "bert": bert(*_SIZE, vocab=VOCAB, tokens=TOKENS, positions=TOKENS),
    "crammed_bert": crammed_bert(*_SIZE, vocab=VOCAB, tokens=TOKENS),
}
# fmt: off
CLASSIFIERS: dict[str, Arch] = {
    "bert_classify": bert(*_SIZE, vocab=VOCAB, tokens=TOKENS, positions=TOKENS,
                          head=Classify(3, "class", None, hidden=32, act="tanh")),
    "bert_mean": bert(*_SIZE, vocab=VOCAB, tokens=TOKENS, positions=TOKENS, head=Classify(3, "mean", None)),
    "crammed_classify": crammed_bert(*_SIZE, vocab=VOCAB, tokens=TOKENS,
                                     head=Classify(3, "class", Norm(eps=1e-12), hidden=48, act="tanh")),
}
# fmt: on
ALL = CAUSAL | BOTH_WAYS | CLASSIFIERS
