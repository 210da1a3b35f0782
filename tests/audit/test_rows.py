"""The audit's integers, row by row: what the stated configuration gives, and the reading that prints the figure.

Counted twice, independently: from modules built with timm 1.0.30 and the papers' repositories when the audit was
made, and here from records. A change of any number is a finding, not a refactoring.
"""

from __future__ import annotations

import pytest

from manyheads.paper.audit import as_stated, audit, likely, memory, policies
from manyheads.paper.figures import figures
from manyheads.paper.readings import agrees, matching
from manyheads.paper.rows import BY_ID, ROWS
from manyheads.paper.statements import statements

# row: (verdict, policy of the likely reading, its exact count, counts of the stated configuration that are wrong)
EXPECTED = {
    "crammed_bert/original": ("match", "same", 119_589_889, ()),
    "crammed_bert/lean": ("match", "split", 84_182_017, (107_774_977,)),
    "gpt2/original": ("match", "same", 89_160_785, ()),
    "gpt2/lean": ("match", "split", 64_150_609, (65_461_329, 68_344_913)),
    "listops/original": ("illegible", "same", 209_942, (209_802,)),
    "listops/lean": ("match", "fixed", 192_906, (193_046,)),
    "text/original": ("mismatch", "same", 370_702, (370_562,)),
    "text/lean": ("illegible", "fixed", 353_806, (353_666,)),
    "retrieval/original": ("mismatch", "same", 395_278, (395_138,)),
    "retrieval/lean": ("mismatch", "fixed", 378_382, (378_242,)),
    "image/original": ("mismatch", "same", 175_126, (174_986,)),
    "image/lean": ("mismatch", "fixed", 158_230, (158_090,)),
    "pathfinder/original": ("mismatch", "same", 174_094, (173_954,)),
    "pathfinder/lean": ("mismatch", "fixed", 157_198, (157_058,)),
    "vit_b/original": ("match", "same", 86_567_656, ()),
    "vit_b/lean": ("match", "fixed", 40_112_872, (34_602_472,)),
    "deit_b/original": ("match", "same", 86_567_656, ()),
    "deit_b/lean": ("match", "fixed", 40_112_872, (34_602_472,)),
    "xcit_m/original": ("match", "same", 84_395_752, ()),
    "xcit_m/lean": ("match", "fixed", 59_002_600, (46_401_256,)),
    "tnt_b/original": ("match", "same", 65_428_680, ()),
    "tnt_b/lean": ("mismatch", "split", 30_897_800, (51_879_560, 44_015_240)),
    "volo_d3/original": ("mismatch", "same", 86_325_072, (103_119_696,)),
    "volo_d3/lean": ("match", "split", 47_454_032, (62_658_384,)),
    "davit_b/original": ("match", "same", 87_954_408, ()),
    "davit_b/lean": ("mismatch", "split", 62_653_416, (73_154_536,)),
    "vit_l/original": ("mismatch", "same", 203_614_184, (304_326_632,)),
    "vit_l/lean": ("match", "fixed", 98_597_864, ()),
    "deit_l/original": ("mismatch", "same", 203_614_184, (304_326_632,)),
    "deit_l/lean": ("match", "fixed", 98_597_864, ()),
    "xcit_l/original": ("match", "same", 189_096_136, ()),
    "xcit_l/lean": ("match", "split", 103_792_744, (117_962_344, 132_131_944)),
    "volo_d4/original": ("mismatch", "same", 192_961_520, (230_736_368,)),
    "volo_d4/lean": ("mismatch", "split", 105_556_976, (85_489_136,)),
    "davit_l/original": ("match", "same", 196_811_752, ()),
    "davit_l/lean": ("match", "split", 139_985_896, (163_601_896,)),
}


def test_every_printed_row_is_audited() -> None:
    assert [row.id for row in ROWS] == list(EXPECTED)
    assert len({row.id for row in ROWS if row.table >= 4}) == 22


@pytest.mark.parametrize("item", audit(), ids=lambda item: item.row.id)
def test_row(item) -> None:
    verdict, policy, count, wrong = EXPECTED[item.row.id]
    assert (item.verdict, item.likely.policy, item.likely.params) == (verdict, policy, count)
    assert item.reason
    given = {r.params for r in as_stated(item.row)}
    assert set(wrong) <= given
    if item.verdict == "match":
        assert agrees(count, item.row.params, item.row.unit)
    else:
        assert not any(r in item.matches for r in as_stated(item.row))


@pytest.mark.parametrize(
    ("row", "label", "count"),
    [
        ("crammed_bert/lean", "head_dim 64, MLP 512", 84_182_017),
        ("gpt2/lean", "head_dim 64, MLP 1024", 64_146_513),
        ("retrieval/lean", "(1,6) x 32, no conv", 394_818),
        ("retrieval/lean", "(1,4) x 32, no conv, MLP 256", 394_754),
        ("image/lean", "(1,4) x 64, no conv", 191_242),
        ("image/lean", "(1,8) x 32, no conv", 191_242),
        ("pathfinder/lean", "(1,8) x 32, no conv", 190_210),
        ("vit_l/original", "head_dim 64, MLP 2048", 203_614_184),
        ("vit_b/lean", "head_dim 48, MLP 2048", 40_111_080),
        ("davit_b/lean", "head_dim [32,32,16,32], MLP [256,512,2048,4096]", 61_996_520),
        ("davit_l/lean", "head_dim 32, MLP [768,1536,1536,6144]", 139_993_576),
    ],
)
def test_other_readings_that_print_the_same_figure_are_listed(row: str, label: str, count: int) -> None:
    assert {r.label: r.params for r in matching(BY_ID[row])}[label] == count


def test_no_reading_prints_texts_figure() -> None:
    assert matching(BY_ID["text/original"]) == ()


def test_eight_of_thirteen_redesigns_most_likely_split() -> None:
    found = policies()
    assert len(found) == 13
    assert sorted(p for p, policy in found.items() if policy == "split") == [
        "crammed_bert",
        "davit_b",
        "davit_l",
        "gpt2",
        "tnt_b",
        "volo_d3",
        "volo_d4",
        "xcit_l",
    ]


def test_memory_column() -> None:
    """VOLO-d3 fits at 64 images a GPU only; XCiT-M and TNT-B lean point to other models; the rest fits as read."""
    first = {m.row.id: m for m in reversed(memory())}
    misfits = {m.row.id for m in memory() if not m.fits}
    assert misfits == {"xcit_m/lean", "tnt_b/lean", "volo_d3/original", "volo_d3/lean"}
    assert {m.images for m in memory() if m.row.id.startswith("volo_d3") and m.fits} == {64}
    assert "46.40 M" in [m.note for m in memory() if m.row.id == "xcit_m/lean"][1]
    assert "44.02 M" in [m.note for m in memory() if m.row.id == "tnt_b/lean"][1]
    assert first["vit_b/original"].overhead == pytest.approx(3.0, abs=0.3)
    assert likely(BY_ID["vit_l/original"]).arch.stages[0].unit[0][1].op.mlp_dim == 2048


def test_stated_numbers() -> None:
    holds = {s.id: s.holds for s in statements()}
    assert not holds["8 layers, 14-18 heads"]
    assert not holds["vision reductions"]
    assert not holds["listops/lean parameters"]
    assert not any(holds[f"{task}/lean parameters"] for task in ("retrieval", "image", "pathfinder"))
    assert holds["crammed_bert/lean GLUE mean"]
    assert holds["gpt2/lean parameters"]


def test_every_figure_has_its_configurations_and_no_invented_value() -> None:
    found = {figure.id: figure for figure in figures()}
    assert list(found) == [f"fig{i}" for i in range(1, 10)]
    printed = {(figure.id, point.label) for figure in figures() for point in figure.points if point.printed is not None}
    assert {f for f, _ in printed} == {"fig1", "fig3", "fig6", "fig7"}
    assert {label for f, label in printed if f == "fig3"} == {"8 layers, 14 heads of 64", "8 layers, 18 heads of 64"}
    assert found["fig5"].own
    counts = {p.label: p.params for p in found["fig3"].points}
    assert counts["8 layers, 14 heads of 64"] == 61_364_968
    assert counts["8 layers, 18 heads of 64"] == 67_662_568
    assert counts["12 layers, 18 heads of 64"] == 100_737_256
    counts = {p.label: p.params for p in found["fig4"].points}
    assert counts["12 layers, MLP ratio 8"] == 143_227_624
    assert counts["8 layers, MLP ratio 1"] == 29_886_184
    counts = {p.label: p.params for p in found["fig8"].points}
    assert counts["(2,8) x 32, conv 35"] == 309_818
    assert counts["(1,2) x 32, no conv"] == 176_330
