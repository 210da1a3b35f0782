"""A wrong record is refused with a sentence that says what to write instead."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from manyheads.arch import families as f
from manyheads.arch import zoo
from manyheads.arch.redesign import redesign
from manyheads.spec import serialise as record
from manyheads.spec.arch import Arch, attentions
from manyheads.spec.errors import UserError
from manyheads.spec.parts import (
    Attention,
    Classify,
    Downsample,
    Lm,
    Mlp,
    Norm,
    Nystrom,
    Patch,
    Residual,
    Rope,
    Softmax,
    Stage,
)

VIT = zoo.get("vit_b")


def with_attention(**change) -> Arch:
    """ViT-B with another attention."""
    op = Attention(**({"heads": 12, "head_dim": 64} | change))
    stage = replace(VIT.stages[0], unit=((Residual(op), Residual(Mlp(3072))),))
    return replace(VIT, stages=(stage,))


@pytest.mark.parametrize(
    ("branches", "says"),
    [
        ((Residual(Attention(12, 64), reads="layer"), Residual(Mlp(9))), "reads='layer' goes with the MLP of a layer"),
        ((Residual(Attention(12, 64)), Residual(Mlp(9), reads="normed")), "shares the norm of the branch before"),
        ((Residual(Attention(12, 64), None), Residual(Mlp(9), None, reads="normed")), "and a norm there"),
        ((Residual(Attention(12, 64), Norm(), "post"), Residual(Mlp(9), reads="layer")), "goes with place='pre'"),
        ((Residual(Attention(12, 64), Norm(), "post", after=Norm()), Residual(Mlp(9))), "after norms what is added"),
        ((Residual(Attention(12, 64), times=0.0), Residual(Mlp(9))), "times is 0; write a number above 0"),
    ],
)
def test_branches_that_do_not_fit_together(branches: tuple, says: str) -> None:
    with pytest.raises(UserError, match=says):
        replace(VIT, stages=(replace(VIT.stages[0], unit=(branches,)),))


def test_rows_of_positions_that_are_never_read_leave_some_that_are() -> None:
    gpt = zoo.get("gpt2")
    assert replace(gpt, embed=replace(gpt.embed, positions=1026, first=2)).embed.places == 1024
    with pytest.raises(UserError, match="tokens is 1024, beyond the 1022 positions"):
        replace(gpt, embed=replace(gpt.embed, first=2))
    with pytest.raises(UserError, match=r"embed\.first is 3, and there are 0 rows"):
        replace(gpt, embed=replace(gpt.embed, positions=0, first=3))


def test_the_classic_width_768_with_18_heads_and_no_head_dim() -> None:
    with pytest.raises(UserError, match=r"768/18 is not whole. State head_dim, e.g. head_dim=64 \(inner 1152\)"):
        with_attention(heads=18, head_dim=0)
    with pytest.raises(UserError, match="head_dim=64 splits the width 768"):
        with_attention(heads=12, head_dim=0)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"heads": 0}, "write a number from 1 up"),
        ({"heads": 2.5}, "write a whole number"),
        ({"heads": True}, "write a whole number"),
        ({"head_dim": -1}, "from 0 up"),
        ({"kv_heads": 5}, r"cannot share 5 kv_heads evenly; write one of \[1, 2, 3, 4, 6, 12\]"),
        ({"kv_heads": 4, "mix": Nystrom()}, "kv_heads goes with Softmax only"),
        ({"head_dim": 63, "mix": Softmax(rope=Rope())}, "write 62 or 64"),
        ({"mix": Nystrom(landmarks=500)}, "500 landmarks for 197 tokens; write at most 197"),
        ({"mix": Nystrom(conv=4)}, "has no centre; write 5"),
        ({"qkv_bias": 1}, "write true or false"),
        ({"out_scale": "half"}, "write a number"),
        ({"mix": Softmax(window=4)}, "a window of 4 tokens looks back; write causal=true"),
        ({"mix": Softmax(causal=True, window=0)}, "write a number from 1 up"),
        ({"mix": Softmax(causal=True, cap=0.0)}, "cap is 0; write a number above 0"),
        ({"mix": Softmax(rope=Rope(share=1.5))}, "rope.share is 1.5; write a share of 1"),
        ({"mix": Softmax(rope=Rope(share=0.02))}, "turn a share of 0.02 of head_dim 64, which is less than one pair"),
        ({"qk_norm_over": "all"}, "write one of 'head', 'inner'"),
        ({"qk_norm": Norm("unit")}, "write one of 'rms', 'layer'"),
    ],
)
def test_attention(change: dict, says: str) -> None:
    with pytest.raises(UserError, match=says):
        with_attention(**change)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: replace(VIT, family="vitt"), "did you mean vit"),
        (lambda: replace(VIT, schema=99), "schema 99"),
        (lambda: replace(VIT, stages=()), "at least one Stage"),
        (lambda: replace(VIT, embed=Patch(image=230)), "write 224 or 240"),
        (lambda: replace(VIT, embed=Patch(image=256)), "gives 257; write tokens=257"),
        (
            lambda: replace(VIT, embed=Patch(class_tokens=0), stages=(replace(VIT.stages[0], tokens=196),)),
            "write pool='mean'",
        ),
        (lambda: replace(VIT, head=Classify(distill=True)), "write class_tokens=2"),
        (lambda: replace(VIT, head=Lm()), "needs a Token embedding"),
        (lambda: replace(VIT, head=Classify(pool="max")), "write one of 'class', 'mean'"),
        (lambda: replace(VIT, stages=(replace(VIT.stages[0], unit=()),)), "repeats at least one layer"),
        (
            lambda: replace(VIT, stages=(replace(VIT.stages[0], unit=((Mlp(3),),)),)),
            "write a list of a list of a Residual",
        ),
        (lambda: replace(VIT, stages=(VIT.stages[0], replace(VIT.stages[0], width=5))), "changes only with Downsample"),
        (lambda: replace(VIT, stages=(replace(VIT.stages[0], enter=Downsample()),)), "nothing stands before"),
        (lambda: f.gpt2(64, 1, 2, 32, 128, tokens=99, positions=64), "beyond the 64 positions"),
        (lambda: f.davit((8, 8, 8, 8), (1,) * 4, (1,) * 4, (8,) * 4, (8,) * 4, image=0), "from 1 up"),
        (
            lambda: replace(VIT, stages=(Stage(768, 197, 1, ((Residual(Mlp(3)),),)),)),
            "no stage holds an Attention; write at least one",
        ),
    ],
)
def test_records(make, says: str) -> None:
    with pytest.raises(UserError, match=says):
        make()


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("vit_b", {"heads": 18, "policy": "split"}, r"head_dim=42 \(inner 756, -1.6%\) or head_dim=43"),
        ("gpt2_tinystories", {"heads": 16, "policy": "split"}, r"head_dim=31 .* or head_dim=32 \(inner 512, \+1.6%\)"),
        ("vit_b", {"policy": "thin"}, "write 'fixed'"),
        ("vit_b", {"depth": 0}, "whole numbers from 1 up"),
        ("davit_b", {"depth": 3}, "write one number per stage, e.g. 1,1,9,1"),
        ("davit_b", {"heads": [4, 8, 16]}, "has 3 numbers and the model has 4 stages"),
        ("vit_b", {"heads": 24, "head_dim": 64, "policy": "split"}, "keeps inner 768, but 24 heads of 64 give 1536"),
        ("vit_b", {"tokens": 300}, "follow from its image size"),
        ("gpt2", {"tokens": 3000}, "beyond the 1024 positions"),
        ("llama_1b", {"heads": 44}, "cannot share 8 kv_heads evenly"),
    ],
)
def test_impossible_redesigns(name: str, change: dict, says: str) -> None:
    with pytest.raises(UserError, match=says):
        redesign(zoo.get(name), **change)


def test_unknown_names_get_the_nearest() -> None:
    with pytest.raises(UserError, match="did you mean vit_b"):
        zoo.get("vit_bb")


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda d: d.pop("family"), "not an architecture record"),
        (lambda d: d.pop("head"), "lacks head"),
        (lambda d: d.update(colour="red"), "no field 'colour'"),
        (lambda d: d.update(schema=7), "schema 7 is not one this version reads"),
        (lambda d: d["stages"][0].update(depths=3), "did you mean depth"),
        (lambda d: d["stages"][0].pop("width"), r"stages\[0\] \(Stage\) lacks width"),
        (lambda d: d["stages"][0]["unit"][0][0]["op"].pop("head_dim"), "12 heads and no head_dim. State it"),
        (lambda d: d["stages"][0]["unit"][0][0]["op"].update({"is": "Atention"}), "did you mean Attention"),
        (lambda d: d["embed"].pop("is"), '"is": null is no record'),
        (lambda d: d.update(stages="many"), "Stage"),
    ],
)
def test_files_by_hand(damage, says: str) -> None:
    data = json.loads(json.dumps(record.to_dict(VIT)))
    damage(data)
    with pytest.raises(UserError, match=says):
        record.arch_from_dict(data)


def test_broken_files(tmp_path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        record.load(tmp_path / "none.json")
    (tmp_path / "broken.json").write_text('{"family": ')
    with pytest.raises(UserError, match="is not JSON"):
        record.load(tmp_path / "broken.json")


VALUES = (None, True, -1, 0, 7, 2.5, "x", [], {}, [[]], {"is": "Norm"}, {"is": []}, {"is": "Attention", "heads": 2})


def paths(node, at=()):
    """Every place in a JSON value."""
    yield at
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in items:
        yield from paths(child, (*at, key))


DAMAGED = ("vit_ti", "tnt_s", "volo_d1", "davit_t", "llama_1b", "nystromformer_text", "nearest_neighbor")


@pytest.mark.parametrize("name", DAMAGED)
def test_a_file_damaged_anywhere_is_refused_or_still_a_model(name: str) -> None:
    """Every value of a saved record replaced by every odd one: a sentence, or a record that can be costed."""
    from manyheads.arch.count import cost

    whole = record.to_dict(zoo.get(name))
    for path in list(paths(whole))[1:]:
        for value in VALUES:
            data = json.loads(json.dumps(whole))
            spot = data
            for key in path[:-1]:
                spot = spot[key]
            spot[path[-1]] = value
            try:
                arch = record.arch_from_dict(data)
            except UserError as error:
                assert str(error)  # noqa: PT017 (either outcome is right)
            else:
                assert cost(arch).params.total > 0


def test_a_model_without_mlp_can_be_costed_and_not_given_one() -> None:
    stage = replace(VIT.stages[0], unit=((Residual(Attention(12, 64)),),))
    bare = replace(VIT, stages=(stage,))
    assert redesign(bare, heads=16).stages[0].depth == 12
    with pytest.raises(UserError, match="layers without an MLP"):
        redesign(bare, mlp_dim=100)


def test_what_a_refusal_suggests_is_accepted() -> None:
    """vit_b split into 18 heads: the head_dims it names work."""
    for dim in (42, 43):
        assert redesign(VIT, heads=18, head_dim=dim, policy="split").stages[0].depth == 12


def test_shared_keys_and_values_follow_a_split() -> None:
    llama = zoo.get("llama_1b")
    thin = redesign(llama, heads=64, policy="split")
    op = thin.stages[0].unit[0][0].op
    assert (op.head_dim, op.kv_heads, op.kv_inner) == (32, 16, 512)
    with pytest.raises(UserError, match="state kv_heads"):
        redesign(llama, heads=16, policy="split", head_dim=126)


def test_redesigned_rank_encoders_stay_averages() -> None:
    more = redesign(zoo.get("nearest_neighbor"), heads=4)
    assert more == f.nearest_neighbor(heads=4)


def test_redesigned_layers_of_a_users_module_are_not_averaged() -> None:
    more = redesign(f.stack(32, 2, 4, 8, 64, tokens=10), heads=8)
    assert more == f.stack(32, 2, 8, 8, 64, tokens=10)
    assert all(op.out_scale == 1 for op in attentions(more.stages[0]))


def test_a_dialect_is_one_of_its_familys() -> None:
    with pytest.raises(UserError, match="dialect is 'storys'; for family 'gpt2' write one of '', 'stories'"):
        replace(zoo.get("gpt2"), dialect="storys")
    with pytest.raises(UserError, match="dialect is 'stories'; for family 'vit' write one of ''"):
        replace(VIT, dialect="stories")


@pytest.mark.parametrize(
    "value",
    [1.5, "7", (7.0,), {7}, object(), 10**20, 10**5000, True, (None,), b"7"],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("name", ["depth", "heads", "head_dim", "mlp_dim", "kv_heads", "tokens"])
def test_a_redesign_names_an_argument_of_a_wrong_type(name: str, value: Any) -> None:
    with pytest.raises(UserError, match=name):
        redesign(zoo.get("gpt2"), **{name: value})


@pytest.mark.parametrize("arch", [1, None, {"family": "vit"}])
def test_a_redesign_of_what_is_no_model_is_refused(arch: Any) -> None:
    with pytest.raises(UserError, match=r"arch is .*; write an Arch"):
        redesign(arch, depth=2)
