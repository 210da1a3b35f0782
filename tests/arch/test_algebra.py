"""Counts of hundreds of random records per family hold their own algebra."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manyheads.arch.attention_cost import MIXES
from manyheads.arch.controls import at_width, depths, head_dims, heads, inners, mlp_dims
from manyheads.arch.count import activation_bytes, cost, forward_flops, head_layers, kv_bytes, params
from manyheads.arch.decoders import gemma2, gemma3, gpt_neox
from manyheads.arch.embed_cost import EMBEDS, ENTERS
from manyheads.arch.head_cost import HEADS
from manyheads.arch.layer_cost import OPS
from manyheads.arch.quantities import Formulas
from manyheads.arch.redesign import edit, policy_of, redesign
from manyheads.spec import serialise as record
from manyheads.spec.arch import Arch, attentions, class_attentions, editable
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Attention, Embed, Enter, Head, Mix, Nystrom, Op, Outlook

from .random_records import FAMILIES

families = pytest.mark.parametrize("family", FAMILIES)


def records(family: str):
    """Run a property on 150 random records of one family."""

    def wrap(prop):
        given(FAMILIES[family]())(settings(max_examples=150)(prop))()

    return wrap


@families
def test_groups_add_up_and_depth_is_linear(family: str) -> None:
    @records(family)
    def prop(arch: Arch) -> None:
        p = params(arch)
        assert p.total == p.embedding + p.attention + p.mlp + p.norm + p.local + p.head
        assert p.non_embedding == p.total - p.embedding - p.head
        for at in range(len(editable(arch))):
            steps = []
            for extra in (1, 2):
                new = [d + extra * (i == at) for i, d in enumerate(depths(arch))]
                steps.append(redesign(arch, depth=new if len(new) > 1 else new[0]))
            for count in (lambda a: params(a).total, forward_flops, activation_bytes, head_layers, kv_bytes):
                assert count(steps[1]) - count(steps[0]) == count(steps[0]) - count(arch)


@families
def test_one_more_fixed_head_costs_the_same_every_time(family: str) -> None:
    @records(family)
    def prop(arch: Arch) -> None:
        if any(op.kv_heads is not None for stage in arch.stages for op in attentions(stage)):
            return
        grown = [redesign(arch, heads=[h + n for h in heads(arch)]) for n in (1, 2)]
        first, second = (
            params(grown[0]).attention - params(arch).attention,
            (params(grown[1]).attention - params(grown[0]).attention),
        )
        expected = 0
        for i in editable(arch):
            stage = arch.stages[i]
            for op in attentions(stage):
                expected += stage.depth * one_head(op, stage.width)
        assert first == second == expected
        assert policy_of(arch, grown[0]) in ("fixed", "split")  # one head of 64 more may stay within 2 %
        assert params(grown[0]).mlp == params(arch).mlp


def one_head(op: Attention, width: int) -> int:
    """Parameters of one head: its rows of q, k, v with bias, its columns of the output, and what the mixing adds."""
    if isinstance(op.mix, Outlook):
        weights = op.mix.kernel**4
        return 2 * width * op.head_dim + op.head_dim * op.qkv_bias + (width + 1) * weights
    extra = op.mix.conv if isinstance(op.mix, Nystrom) else type(op.mix).__name__ == "CrossCovariance"
    return 4 * width * op.head_dim + 3 * op.head_dim * op.qkv_bias + extra


@families
def test_splitting_keeps_every_matrix_but_adds_head_wise_parameters(family: str) -> None:
    @records(family)
    def prop(arch: Arch) -> None:
        if any(op.kv_heads is not None or op.head_dim % 2 or op.qk_norm for s in arch.stages for op in attentions(s)):
            return
        if family == "llama" and any(d % 4 for d in head_dims(arch)):
            return  # rotary positions need an even head_dim
        thin = redesign(arch, heads=[2 * h for h in heads(arch)], policy="split")
        assert inners(thin) == inners(arch)
        assert policy_of(arch, thin) == "split"
        headwise = sum(
            stage.depth
            * op.heads
            * (
                (stage.width + 1) * op.mix.kernel**4
                if isinstance(op.mix, Outlook)
                else op.mix.conv
                if isinstance(op.mix, Nystrom)
                else type(op.mix).__name__ == "CrossCovariance"
            )
            for stage in arch.stages
            for op in attentions(stage)
        )
        assert params(thin).total - params(arch).total == headwise


@families
def test_records_survive_json(family: str) -> None:
    @records(family)
    def prop(arch: Arch) -> None:
        assert record.arch_from_dict(json.loads(json.dumps(record.to_dict(arch)))) == arch


@families
def test_a_redesign_edits_attention_depth_and_mlp_and_nothing_else(family: str) -> None:
    @records(family)
    def prop(arch: Arch) -> None:
        n = len(editable(arch))
        same = redesign(arch, depth=depths(arch), heads=heads(arch), head_dim=head_dims(arch), mlp_dim=mlp_dims(arch))
        assert same == arch
        even = [
            2 * h if all(op.kv_heads is None for op in attentions(arch.stages[i])) else h
            for i, h in zip(editable(arch), heads(arch), strict=True)
        ]
        new = redesign(arch, depth=[1] * n, heads=even, mlp_dim=[7] * n)
        assert (new.embed, new.head, new.family) == (arch.embed, arch.head, arch.family)
        for before, after in zip(arch.stages, new.stages, strict=True):
            assert class_attentions(before) == class_attentions(after)
            assert (before.width, before.tokens, before.enter) == (after.width, after.tokens, after.enter)
        back = redesign(new, depth=depths(arch), heads=heads(arch), head_dim=head_dims(arch), mlp_dim=mlp_dims(arch))
        assert back == arch


@families
def test_an_edit_with_arrays_costs_what_each_design_costs(family: str) -> None:
    np = pytest.importorskip("numpy", reason="numpy is a core dependency, absent only in a broken install")

    @given(FAMILIES[family](), st.data())
    @settings(max_examples=25)
    def prop(arch: Arch, data: st.DataObject) -> None:
        n = len(editable(arch))
        step = [op.kv_heads or 1 for i in editable(arch) for op in attentions(arch.stages[i])[:1]]
        designs = [
            [
                [data.draw(st.integers(1, 5)) * s for s in step],
                [4 * data.draw(st.integers(1, 9)) for _ in range(n)],  # of which rotary positions may turn a part
                [data.draw(st.integers(1, 50)) for _ in range(n)],
                [data.draw(st.integers(1, 6)) for _ in range(n)],
            ]
            for _ in range(3)
        ]
        columns = [[np.array([design[what][at] for design in designs]) for at in range(n)] for what in range(4)]
        sketch = edit(arch, heads=columns[0], head_dim=columns[1], mlp_dim=columns[2], depth=columns[3])
        many = cost(sketch)
        for i, (h, d, m, deep) in enumerate(designs):
            one = cost(redesign(arch, heads=h, head_dim=d, mlp_dim=m, depth=deep))
            for name in ("forward_flops", "activation_bytes_unfused_fp32", "activation_bytes_fused_amp", "head_layers"):
                assert np.broadcast_to(getattr(many, name), 3)[i] == getattr(one, name)
            assert np.broadcast_to(many.params.total, 3)[i] == one.params.total
            assert np.broadcast_to(many.kv_bytes_per_token, 3)[i] == one.kv_bytes_per_token

    prop()


@pytest.mark.parametrize(
    ("kinds", "table"),
    [(Mix, MIXES), (Op, OPS), (Embed, EMBEDS), (Enter, ENTERS), (Head, HEADS)],
    ids=["mix", "op", "embed", "enter", "head"],
)
def test_every_kind_of_part_is_counted(kinds: object, table: dict[type, Formulas]) -> None:
    assert set(table) == set(get_args(kinds))


def test_odd_sizes_are_ordinary() -> None:
    """13 heads of 40 at width 512: inner 520."""
    from manyheads.arch.families import vit

    arch = vit(512, 3, 13, 40, 1000)
    assert inners(arch) == [520]
    assert params(arch).attention == 3 * (512 * 3 * 520 + 3 * 520 + 520 * 512 + 512)
    assert params(replace(arch)).total == params(arch).total


def test_stages_that_differ_in_windows_alone_take_one_number_of_heads() -> None:
    """Gemma 3 with 8 layers: six in a pattern, and two that are left of the next."""
    arch = gemma3(32, 8, 4, 8, 64, kv_heads=2, tokens=16, window=4)
    assert [stage.depth for stage in arch.stages] == [5, 1, 2]
    more = redesign(arch, heads=8, mlp_dim=32, depth=(2, 1, 1))
    assert (heads(more), inners(more)) == ([8, 8, 8], [64, 64, 64])
    assert [stage.unit[0][0].op.mix.window for stage in more.stages] == [4, None, 4]
    with pytest.raises(UserError, match="depth is 3, but this family has 3 stages"):
        redesign(arch, depth=3)


def test_a_scale_that_is_the_root_of_the_width_follows_the_width() -> None:
    gemma, other = gemma2(64, 4, 4, 8, 64, tokens=16, window=4), gpt_neox(64, 4, 4, 16, 64, vocab=9, tokens=4)
    assert at_width(gemma, 0.25).embed.scale == 4.0
    scaled = replace(other, embed=replace(other.embed, scale=3.0))
    assert at_width(scaled, 0.25).embed.scale == 3.0
