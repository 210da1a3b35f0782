"""Random valid records of every family, odd numbers included."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from manyheads.arch import families as f
from manyheads.spec.arch import Arch
from manyheads.spec.parts import (
    Attention,
    AttentionPooler,
    ClassAttention,
    Classify,
    Features,
    Lm,
    Mlp,
    Norm,
    Pooler,
    Residual,
    Rope,
    RopeLlama3,
    Softmax,
    Token,
)

numbers = st.integers
heads, head_dims = st.integers(1, 31), st.sampled_from((1, 3, 8, 16, 21, 32, 40, 64, 85))
depths, widths = st.integers(1, 9), st.sampled_from((8, 24, 40, 64, 96, 129, 512))
mlps = st.integers(1, 300)
NORMS = ("layer", "rms", "rms_plus_one", "layer_plus_one", "layer_no_bias", "layer_plain")


@st.composite
def vit(draw) -> Arch:
    """ViT and DeiT, 0 to 2 class tokens."""
    tokens = draw(numbers(0, 2))
    arch = f.vit(
        draw(widths),
        draw(depths),
        draw(heads),
        draw(head_dims),
        draw(mlps),
        patch=8,
        image=8 * draw(numbers(1, 6)),
        channels=draw(numbers(1, 4)),
        classes=draw(numbers(1, 30)),
        class_tokens=tokens,
        class_positions=draw(st.booleans()),
        scaled=draw(st.sampled_from((None, 0.1))),
        family="deit" if tokens == 2 else "vit",
    )
    width = arch.stages[0].width
    embed = replace(
        arch.embed,
        bias=draw(st.booleans()),
        registers=draw(numbers(0, 3)),
        mask_token=draw(st.booleans()),
        norm=draw(st.sampled_from((None, f.LAYER5))),
    )
    poolers = [None, AttentionPooler(ClassAttention(draw(heads), draw(head_dims)), Mlp(draw(mlps)))]
    poolers += [Pooler("class", f.LAYER5, draw(numbers(1, 30)), draw(st.booleans()), "tanh")] * (tokens > 0)
    heads_of = [arch.head, Features(draw(st.sampled_from((None, f.LAYER5))), draw(st.sampled_from(poolers)))]
    heads_of.append(Classify(draw(numbers(1, 30)), "patches", hidden=draw(numbers(0, 9))))
    heads_of += [Classify(draw(numbers(1, 30)), "class_and_patches", hidden=draw(numbers(0, 9)))] * (tokens > 0)
    stage = replace(arch.stages[0], tokens=arch.stages[0].tokens + embed.registers, width=width)
    return replace(arch, embed=embed, stages=(stage,), head=draw(st.sampled_from(heads_of)))


@st.composite
def xcit(draw) -> Arch:
    """XCiT with patches of 8 or 16."""
    patch = draw(st.sampled_from((8, 16)))
    return f.xcit(
        8 * draw(numbers(1, 12)),
        draw(depths),
        draw(heads),
        draw(head_dims),
        draw(mlps),
        patch=patch,
        image=patch * draw(numbers(1, 4)),
        classes=draw(numbers(1, 30)),
        class_layers=draw(numbers(1, 3)),
        class_heads=draw(numbers(1, 4)),
        class_head_dim=draw(head_dims),
        class_mlp_dim=draw(mlps),
    )


@st.composite
def tnt(draw) -> Arch:
    """TNT, both blocks."""
    return f.tnt(
        draw(widths),
        draw(depths),
        draw(heads),
        draw(head_dims),
        draw(mlps),
        pixel_width=draw(numbers(1, 24)),
        pixel_heads=draw(numbers(1, 4)),
        pixel_head_dim=draw(numbers(1, 12)),
        pixel_mlp_dim=draw(numbers(1, 96)),
        image=16 * draw(numbers(1, 3)),
        classes=draw(numbers(1, 30)),
        legacy=draw(st.booleans()),
    )


def per_stage(strategy, n: int = 4):
    """One draw per stage."""
    return st.lists(strategy, min_size=n, max_size=n).map(tuple)


@st.composite
def volo(draw) -> Arch:
    """VOLO; the last three stages share their width."""
    first, rest = draw(numbers(1, 8)) * 8, draw(numbers(1, 8)) * 8
    return f.volo(
        (first, rest, rest, rest),
        draw(per_stage(depths)),
        draw(per_stage(heads)),
        draw(per_stage(head_dims)),
        draw(per_stage(mlps)),
        stem=draw(numbers(1, 16)),
        image=draw(st.sampled_from((32, 48, 64))),
        classes=draw(numbers(1, 30)),
        class_layers=draw(numbers(1, 2)),
        aux=draw(st.booleans()),
    )


@st.composite
def davit(draw) -> Arch:
    """DaViT on grids that windows do and do not divide."""
    return f.davit(
        draw(per_stage(widths)),
        draw(per_stage(depths)),
        draw(per_stage(heads)),
        draw(per_stage(head_dims)),
        draw(per_stage(mlps)),
        window=draw(st.sampled_from((3, 7))),
        image=32 * draw(numbers(1, 4)),
        classes=draw(numbers(1, 30)),
    )


@st.composite
def crammed_bert(draw) -> Arch:
    """Crammed BERT."""
    return f.crammed_bert(
        2 * draw(widths),
        draw(depths),
        draw(heads),
        draw(head_dims),
        draw(mlps),
        vocab=draw(numbers(4, 99)),
        tokens=draw(numbers(1, 40)),
    )


@st.composite
def bert(draw) -> Arch:
    """BERT, with rows before the first position and without, and with every head."""
    tokens, first = draw(numbers(1, 40)), draw(numbers(0, 3))
    arch = f.bert(
        draw(widths),
        draw(depths),
        draw(heads),
        draw(head_dims),
        draw(mlps),
        vocab=draw(numbers(4, 99)),
        tokens=tokens,
        positions=tokens + first + draw(numbers(0, 5)),
        types=draw(numbers(0, 3)),
    )
    pooler = Pooler(draw(st.sampled_from(("class", "last", "end"))), None, draw(numbers(1, 30)), draw(st.booleans()))
    masked = replace(arch.head, act=draw(st.sampled_from(("gelu", "relu", "quick_gelu"))))
    head = draw(st.sampled_from((masked, Features(), Features(f.LAYER5, pooler))))
    return replace(arch, embed=replace(arch.embed, first=first), head=head)


@st.composite
def gpt2(draw) -> Arch:
    """GPT-2 in all dialects."""
    tokens = draw(numbers(1, 40))
    make = draw(st.sampled_from((f.gpt2, f.stories)))
    positions = {"positions": tokens + draw(numbers(0, 5))} if make is f.gpt2 else {}
    arch = make(
        draw(widths),
        draw(depths),
        draw(heads),
        draw(head_dims),
        draw(mlps),
        vocab=draw(numbers(4, 99)),
        tokens=tokens,
        **positions,
    )
    return replace(arch, head=replace(arch.head, tied=draw(st.booleans()), bias=draw(st.booleans())))


@st.composite
def llama(draw) -> Arch:
    """Llama- and Qwen-type decoders with grouped queries."""
    kv = draw(numbers(1, 5))
    return f.llama(
        draw(widths),
        draw(depths),
        kv * draw(numbers(1, 6)),
        2 * draw(numbers(1, 32)),
        draw(mlps),
        kv_heads=draw(st.sampled_from((None, kv))),
        vocab=draw(numbers(4, 99)),
        tokens=draw(numbers(1, 40)),
        rope=draw(st.sampled_from((Rope(), RopeLlama3()))),
        tied=draw(st.booleans()),
        qk_norm=draw(st.booleans()),
        qkv_bias=draw(st.booleans()),
        out_bias=draw(st.booleans()),
    )


ropes = st.sampled_from((None, Rope(), Rope(share=0.5), Rope(stretch=8.0), RopeLlama3()))


@st.composite
def gpt_neox(draw) -> Arch:
    """Decoders with rotary positions: every kind of norm, place and sharing of it, windows, scales and caps, in a
    pattern of layers that differ."""
    kv, norm = draw(numbers(1, 4)), Norm(draw(st.sampled_from(NORMS)), 1e-6)
    kinds = ("rms", "layer", "rms_plus_one", "layer_no_bias")
    every, head_dim, count = [], 8 * draw(numbers(1, 8)), kv * draw(numbers(1, 4))
    grouped, mlp_dim = draw(st.sampled_from((None, kv))), draw(mlps)
    for _ in range(draw(numbers(1, 3))):
        window = draw(st.sampled_from((None, 3, 99)))
        mix = Softmax(True, draw(ropes), window, draw(st.sampled_from((None, 0.3))), draw(st.sampled_from((None, 5.0))))
        attention = Attention(
            count,
            head_dim,
            grouped,
            draw(st.booleans()),
            draw(st.booleans()),
            draw(st.sampled_from((None, Norm(draw(st.sampled_from(kinds)), 1e-6)))),
            mix=mix,
            qk_norm_over=draw(st.sampled_from(("head", "inner"))),
        )
        mlp = Mlp(mlp_dim, draw(st.sampled_from(("gelu", "relu_squared"))), draw(st.booleans()), draw(st.booleans()))
        after, reads = draw(st.sampled_from((None, norm))), draw(st.sampled_from(("stream", "layer", "normed")))
        times = draw(st.sampled_from((1.0, 0.5)))
        second = Residual(mlp, None if reads == "normed" else norm, after=after, times=times, reads=reads)
        every.append((Residual(attention, norm, after=after, times=times), second))
    width, tokens = draw(widths), draw(numbers(1, 40))
    stages = f.staged(width, tokens, every * draw(numbers(1, 3)))
    head = Lm(
        draw(st.booleans()),
        draw(st.booleans()),
        norm,
        draw(st.sampled_from((1.0, 2.0))),
        draw(st.sampled_from((None, 9.0))),
    )
    return Arch("gpt_neox", Token(draw(numbers(4, 99)), scale=draw(st.sampled_from((1.0, 3.0)))), stages, head)


@st.composite
def opt(draw) -> Arch:
    """OPT."""
    return f.opt(
        draw(widths),
        draw(depths),
        draw(heads),
        draw(head_dims),
        draw(mlps),
        vocab=draw(numbers(4, 99)),
        tokens=draw(numbers(1, 40)),
        tied=draw(st.booleans()),
    )


@st.composite
def nystromformer(draw) -> Arch:
    """Nyströmformer with and without convolution, one document or two."""
    tokens = draw(numbers(4, 70))
    return f.nystromformer(
        draw(widths),
        draw(depths),
        draw(heads),
        draw(head_dims),
        draw(mlps),
        vocab=draw(numbers(4, 99)),
        tokens=tokens,
        classes=draw(numbers(1, 12)),
        landmarks=draw(numbers(1, tokens)),
        conv=draw(st.sampled_from((0, 3, 35))),
        pair=draw(st.booleans()),
        head_hidden=draw(numbers(1, 64)),
        softmax=draw(st.booleans()),
    )


@st.composite
def nearest_neighbor(draw) -> Arch:
    """The rank encoder with its kinds of positions."""
    return f.nearest_neighbor(
        draw(numbers(2, 64)),
        draw(depths),
        draw(heads),
        draw(head_dims),
        draw(mlps),
        tokens=draw(numbers(2, 40)),
        positions=draw(st.sampled_from(("none", "concat", "add"))),
        position_dim=draw(numbers(1, 20)),
    )


@st.composite
def stack(draw) -> Arch:
    """The layers of a user's own module."""
    kv = draw(numbers(1, 5))
    return f.stack(
        draw(widths),
        draw(depths),
        kv * draw(numbers(1, 6)),
        draw(head_dims),
        draw(mlps),
        tokens=draw(numbers(1, 40)),
        kv_heads=draw(st.sampled_from((None, kv))),
        gated=draw(st.booleans()),
        bias=draw(st.booleans()),
        norm=draw(st.sampled_from((f.LAYER5, Norm("rms", 1e-5)))),
    )


FAMILIES = {
    made.__name__: made
    for made in (
        vit,
        xcit,
        tnt,
        volo,
        davit,
        crammed_bert,
        bert,
        gpt2,
        llama,
        gpt_neox,
        opt,
        nystromformer,
        nearest_neighbor,
        stack,
    )
}
