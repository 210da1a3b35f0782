"""A pack holds what its folders hold, and a pack in which anything is wrong is refused with the number of its line."""

from __future__ import annotations

import hashlib
import json
import lzma
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from manyheads.runs import Run, RunFolder, find, pack_lines
from manyheads.runs.pack import pack
from manyheads.runs.pack_lines import FIRST, MOST_LINE, read_lines, seal, write_lines
from manyheads.runs.thinned import CURVE, DRAWN, PROBED, thin_metrics, thin_spectra, thin_timings
from manyheads.spec.errors import UserError
from tests.runs.examples import on_small_disk, spec

STEPS, LAYERS, PROBES = 200, 12, 40


def finish(path: Path, seed: int = 0, top1: float = 0.8, **label: Any) -> Run:
    """A finished run with long curves."""
    one = spec(seed)
    run = Run.create(path, replace(one, label={**one.label, "scale": "smoke", **label}))
    with run.locked():
        for step in range(1, STEPS + 1):
            run.metrics.append({"kind": "train", "step": step, "samples": step, "loss": 2.0 / step, "lr": 0.1})
            run.timings.append({"step": step, "seconds": step / 7, "rate": 3.0})
            if step % 10 == 0:
                run.metrics.append({"kind": "eval", "step": step, "samples": step, "top1": top1 * step / STEPS})
        for probe in range(PROBES):
            for layer in range(LAYERS):
                numbers = {"log_kappa": 5.0 / (probe + layer + 1), "mean_kappa": 9.0, "detail": {"entropy": probe / 7}}
                rest = {"kind": "softmax", "stable_rank": 2.5, "jacobian": None, "head_correlation": None}
                run.spectra.append({"step": 5 * probe, "layer": layer, **numbers, **rest})
        run.write_status(state="running", step=STEPS, total=STEPS)
        score = {"top1": top1}
        run.finish({"score": score, "better": ["top1", "up"], "timing": {"seconds": 9.5 + seed, "on_device": 3}})
    return run


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three finished runs."""
    root = tmp_path_factory.mktemp("finished")
    for seed in range(3):
        finish(root / "fig2-smoke" / f"lean-s{seed}", seed)
    return root


@pytest.fixture
def packed(folders: Path, tmp_path: Path) -> Path:
    """A pack of them."""
    out = tmp_path / "three.jsonl.xz"
    assert pack(folders, out).runs == 3
    return out


def lines(path: Path) -> list[bytes]:
    """The lines of a pack."""
    return lzma.open(path).read().splitlines()


def write(path: Path, lines: list[bytes]) -> None:
    """A file with these lines."""
    path.write_bytes(lzma.compress(b"".join(line + b"\n" for line in lines)))


def chained(contents: list[dict[str, Any]]) -> list[bytes]:
    """The lines that a writer of other content would make, with sound hashes."""
    out, before = [], FIRST
    for content in contents:
        line, before = seal(content, before)
        out.append(line.removesuffix(b"\n"))
    return out


def refused(path: Path) -> str:
    """Why a pack is refused; a list of the folder that it is in must say the same."""
    with pytest.raises(UserError) as told:
        find(path)
    (listed,) = find(path.parent)
    assert listed.problem == str(told.value)
    assert listed.state in ("damaged", "foreign")
    return str(told.value)


def test_a_packed_run_reads_like_its_folder(folders: Path, packed: Path) -> None:
    there, here = find(folders), find(packed)
    assert [run.path.relative_to(packed) for run in here] == [run.path.relative_to(folders) for run in there]
    for one, other in zip(here, there, strict=True):
        assert (one.spec, one.state, one.status, one.result) == (other.spec, "done", other.status, other.result)
        assert one.place == packed
        assert [r for r in one.records("metrics") if r["kind"] == "eval"] == [
            r for r in other.records("metrics") if r["kind"] == "eval"
        ]


def test_curves_are_thinned_to_records_that_the_run_wrote(folders: Path, packed: Path) -> None:
    there, here = find(folders)[0], find(packed)[0]
    train = [record for record in here.records("metrics") if record["kind"] == "train"]
    assert len(train) == len(here.records("timings")) == CURVE
    assert (train[0]["step"], train[-1]["step"]) == (1, STEPS)
    assert all(record in there.records("metrics") for record in train)
    kept, whole = here.records("spectra"), there.records("spectra")
    assert len(kept) <= PROBED < len(whole)
    assert {(r["step"], r["layer"]) for r in kept} <= {(r["step"], r["layer"]) for r in whole}
    ends = [r for r in whole if r["step"] in (0, whole[-1]["step"])]
    assert [r for r in kept if r["step"] in (0, whole[-1]["step"])] == [
        {name: value for name, value in r.items() if value is not None} for r in ends
    ]
    between = next(r for r in kept if 0 < r["step"] < whole[-1]["step"])
    assert between.keys() <= {*DRAWN, "detail"}
    assert len(lines(packed)[0]) < 40_000


def test_thinning_what_is_thinned_changes_nothing(folders: Path) -> None:
    run = find(folders)[0]
    for name, thin in (("metrics", thin_metrics), ("spectra", thin_spectra), ("timings", thin_timings)):
        once = thin(run.records(name))  # type: ignore[arg-type]
        assert thin(once) == once


def test_packs_become_one_pack_with_the_same_lines(folders: Path, packed: Path, tmp_path: Path) -> None:
    one, other, both = tmp_path / "a" / "one.jsonl.xz", tmp_path / "a" / "other.jsonl.xz", tmp_path / "both.jsonl.xz"
    for seed, out in ((0, one), (1, other)):
        pack(folders / "fig2-smoke" / f"lean-s{seed}", out)
    pack(tmp_path / "a", both)
    contents = [run["name"] for run in read_lines(both)]
    assert contents == ["lean-s0", "lean-s1"]
    again = tmp_path / "again.jsonl.xz"
    pack(packed, again)
    assert again.read_bytes() == packed.read_bytes()


@pytest.mark.parametrize(
    ("harm", "line", "why"),
    [
        (lambda old: [old[0], old[1].replace(b'"top1":0.8', b'"top1":0.9'), *old[2:]], 2, "its hash does not fit"),
        (lambda old: [*old[:1], *old[2:]], 2, "does not follow the line before"),
        (lambda old: [old[1], old[0], *old[2:]], 1, "does not follow the line before"),
        (lambda old: [*old[:2], old[1], *old[2:]], 3, "does not follow the line before"),
        (lambda old: old[:-1], 4, "the last line of a pack counts its runs"),
        (lambda old: [*old, old[-1]], 5, "follows the last line, which counts 3 runs"),
        (lambda old: [*old[:2], b"x" + old[2], old[3]], 3, "does not begin with a hash"),
        (lambda old: [old[0], old[1].replace(b'"run"', b'"tun"'), *old[2:]], 2, "its hash does not fit"),
    ],
)
def test_a_pack_that_was_changed_is_refused_by_line(
    packed: Path, harm: Callable[[list[bytes]], list[bytes]], line: int, why: str
) -> None:
    write(packed, harm(lines(packed)))
    told = refused(packed)
    assert f"line {line} " in told
    assert why in told


@pytest.mark.parametrize(
    ("edit", "line", "why"),
    [
        (lambda runs: runs[1]["spec"]["recipe"].update(lr=1.0), 2, "was changed after it was written"),
        (lambda runs: runs[0]["spec"].pop("id"), 1, "no `id`"),
        (lambda runs: runs[2].update(name="../../etc/passwd"), 3, "no name that a folder can have"),
        (lambda runs: runs[2].update(name="a\x1b[31m"), 3, "no name that a folder can have"),
        (lambda runs: runs[0].update(result=None), 1, "has no result"),
        (lambda runs: runs[0].update(metrics=[3]), 1, "no list of records as its metrics"),
        (lambda runs: runs.pop(), 3, "counts 3 runs, and 2 lines are before it"),
    ],
)
def test_a_pack_whose_hashes_were_made_anew_still_has_to_hold_runs(
    packed: Path, edit: Callable[[list[dict[str, Any]]], object], line: int, why: str
) -> None:
    runs = read_lines(packed)
    edit(runs)
    write(packed, chained([*({"run": run} for run in runs), {"runs": 3}]))
    told = refused(packed)
    assert f"line {line}" in told
    assert why in told


def test_a_pack_that_was_cut_anywhere_is_refused_by_line(packed: Path) -> None:
    whole = packed.read_bytes()
    for size in (6, 40, len(whole) // 3, len(whole) // 2, len(whole) - 30, len(whole) - 1):
        packed.write_bytes(whole[:size])
        assert "is damaged: line " in refused(packed), size
    for more in (b"\0", b"x", whole):
        packed.write_bytes(whole + more)
        assert "further bytes after its end" in refused(packed)
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    packed.write_bytes(flipped)
    assert "is damaged: line " in refused(packed)


def test_other_files_with_such_a_name_are_foreign(tmp_path: Path) -> None:
    file = tmp_path / "stories.jsonl.xz"
    for data in (b"", b"plain text", lzma.compress(b'{"text": "a story"}\n')):
        file.write_bytes(data)
        assert "is no pack of manyheads" in refused(file)
        assert find(tmp_path)[0].state == "foreign"


def test_what_a_pack_may_cost_is_bounded(packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed.write_bytes(lzma.compress(b"a" * (MOST_LINE + (1 << 20)), preset=0))
    assert "line 1 is longer than 4 MiB" in refused(packed)
    nested = b'{"before":"' + FIRST.encode() + b'","run":' + b'{"a":' * 200 + b"1" + b"}" * 200 + b',"schema":1}'
    line = pack_lines.MARK + hashlib.sha256(nested).hexdigest().encode() + b'",' + nested[1:]
    write(packed, [line])
    assert "line 1 is not JSON (it is nested more than 100 deep)" in refused(packed)
    write(packed, chained([{"runs": 0}]))
    monkeypatch.setattr(pack_lines, "MOST_BYTES", 10)
    assert "when it is decompressed" in refused(packed)


def test_more_runs_than_a_pack_may_hold_are_refused_while_it_is_read(
    packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pack_lines, "MOST_RUNS", 2)
    assert "line 3 is beyond the 2 runs" in refused(packed)


@pytest.mark.parametrize(("name", "most", "words"), [("MOST_RUNS", 2, "2 runs"), ("MOST_BYTES", 3 << 20, "3 MiB")])
def test_a_pack_that_nobody_could_read_is_not_written(
    name: str, most: int, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pack_lines, name, most)
    runs = [{"name": "a" * (1 << 20)}] * 3
    with pytest.raises(UserError, match=f"would have more than {words}"):
        write_lines(tmp_path / "large.jsonl.xz", runs)
    assert not list(tmp_path.iterdir())
    write_lines(tmp_path / "small.jsonl.xz", runs[:2])
    assert len(read_lines(tmp_path / "small.jsonl.xz")) == 2


def test_memory_that_a_pack_asks_for_is_bounded(packed: Path) -> None:
    data = lzma.compress(packed.read_bytes(), filters=[{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 29}])
    packed.write_bytes(data)
    assert "line 1 cannot be decompressed (Memory usage limit" in refused(packed)


def test_what_is_not_finished_is_named_and_left_out(folders: Path, tmp_path: Path) -> None:
    finish(tmp_path / "runs" / "good")
    Run.create(tmp_path / "runs" / "begun", spec(1)).write_status(state="stopped", step=3)
    (Run.create(tmp_path / "runs" / "broken", spec(2)).path / "result.json").write_text("{")
    (tmp_path / "runs" / "other").mkdir()
    (tmp_path / "runs" / "other" / "spec.json").write_text("{}")
    torn = finish(tmp_path / "runs" / "torn", 3)
    torn.spectra.path.write_text("no JSON\n")
    report = pack(tmp_path / "runs", tmp_path / "x.jsonl.xz")
    assert report.runs == 1
    told = "\n".join(report.left_out)
    for words in (
        "begun is stopped and not finished",
        "broken/result.json is damaged",
        "is not the specification",
        "torn/spectra.jsonl is damaged: line 1",
    ):
        assert words in told
    assert len(report.left_out) == 4


def test_nothing_is_written_where_nothing_is_finished_or_the_name_is_taken(folders: Path, tmp_path: Path) -> None:
    for root, out, why in (
        (tmp_path, tmp_path / "x.jsonl.xz", "holds no finished run"),
        (folders, tmp_path / "x.json", "the name of a pack ends in .jsonl.xz; write x.jsonl.xz"),
    ):
        with pytest.raises(UserError, match=why):
            pack(root, out)
    taken = tmp_path / "taken.jsonl.xz"
    taken.write_text("mine")
    with pytest.raises(UserError, match="exists, and a pack is never overwritten"):
        pack(folders, taken)
    assert [path.name for path in tmp_path.iterdir()] == ["taken.jsonl.xz"]
    assert taken.read_text() == "mine"


def test_a_full_disk_leaves_no_part_of_a_pack(folders: Path, tmp_path: Path) -> None:
    code = f"""
from manyheads.runs.pack import pack
(folder / "before").write_bytes(b"x" * 4096)
try:
    pack(Path({str(folders)!r}), folder / "new.jsonl.xz")
except UserError as error:
    print(error)
print(os.listdir(folder))
"""
    told = on_small_disk(code, tmp_path / "disk", "4k")
    assert "new.jsonl.xz cannot be written: No space left on device; what was written before is intact" in told
    assert told.splitlines()[-1] == "['before']"


def test_a_run_in_a_pack_and_elsewhere_counts_once(folders: Path, packed: Path, tmp_path: Path) -> None:
    (tmp_path / "second.jsonl.xz").write_bytes(packed.read_bytes())
    (tmp_path / "lean-s0").symlink_to(folders / "fig2-smoke" / "lean-s0")
    runs = find(tmp_path)
    assert [run.spec.seed for run in runs if run.spec] == [0, 1, 2]
    by_seed = {run.spec.seed: run for run in runs if run.spec}
    assert by_seed[0].path == tmp_path / "lean-s0"  # a folder comes before a pack
    assert by_seed[0].also == tuple(
        tmp_path / name / "fig2-smoke" / "lean-s0" for name in ("second.jsonl.xz", packed.name)
    )
    assert [len(run.also) for run in runs] == [2, 1, 1]
    assert not any(run.problem for run in runs)


def test_a_run_that_belongs_to_two_experiments_counts_in_both(packed: Path, tmp_path: Path) -> None:
    finish(tmp_path / "again", 0, experiment="table1")
    assert len(find(tmp_path)) == 4


def test_a_finished_run_in_a_pack_comes_before_an_unfinished_folder(packed: Path, tmp_path: Path) -> None:
    Run.create(tmp_path / "begun", find(packed)[0].spec).write_status(state="stopped", step=3)  # type: ignore[arg-type]
    runs = find(tmp_path)
    assert [run.state for run in runs] == ["done"] * 3
    assert runs[0].also == (tmp_path / "begun",)


def test_one_run_with_two_results_is_damaged_in_both_places(packed: Path, tmp_path: Path) -> None:
    finish(tmp_path / "other", 1, top1=0.7)
    states = {run.path.name: run for run in find(tmp_path)}
    assert {name: run.state for name, run in states.items()} == {
        "lean-s0": "done",
        "lean-s1": "damaged",
        "other": "damaged",
        "lean-s2": "done",
    }
    assert "are the same run and have different results" in str(states["other"].problem)
    report = pack(tmp_path, tmp_path / "all.jsonl.xz")
    assert report.runs == 2
    assert len(report.left_out) == 2


def test_a_field_that_only_a_newer_version_writes_is_no_other_result(packed: Path, tmp_path: Path) -> None:
    again(tmp_path / "again", "a" * 64)
    runs = find(tmp_path)
    assert not any(run.problem for run in runs)
    assert [len(run.also) for run in runs] == [1, 0, 0]
    again(tmp_path / "other", "b" * 64)  # both agree with the packed one, and not with each other
    problems = {run.path.name: str(run.problem) for run in find(tmp_path) if run.problem}
    assert problems.keys() == {"again", "other", "lean-s0"}
    both = f"{tmp_path / 'again'} and {tmp_path / 'other'} are the same run and have different results"
    assert both in problems["again"]
    assert both in problems["lean-s0"]


def again(path: Path, data: str) -> None:
    """The first run once more, as a version that writes the sha256 of the data would leave it."""
    finish(path, 0)
    record = json.loads((path / "result.json").read_text())
    record["result"]["data_sha256"] = data
    (path / "result.json").write_text(json.dumps(record))


def test_two_folders_of_one_run_are_packed_once_or_not_at_all(tmp_path: Path) -> None:
    for name, seed, top1 in (("a", 0, 0.8), ("b", 0, 0.8), ("c", 1, 0.8), ("d", 1, 0.7), ("e", 2, 0.8)):
        finish(tmp_path / "runs" / name, seed, top1)
    report = pack(tmp_path / "runs", tmp_path / "x.jsonl.xz")
    assert [run["name"] for run in read_lines(tmp_path / "x.jsonl.xz")] == ["a", "e"]
    assert len(report.remarks) == 1
    assert len(report.left_out) == 2


def test_whoever_needs_a_folder_is_told_that_a_pack_has_none(packed: Path) -> None:
    with pytest.raises(
        UserError, match=r"three\.jsonl\.xz is a pack: it has the numbers of runs, and no folders, models"
    ):
        Run.open(packed / "fig2-smoke" / "lean-s0")


def test_the_interface_is_the_same_for_both(folders: Path, packed: Path) -> None:
    for run in (*find(folders), *find(packed)):
        assert isinstance(run, RunFolder)
        for name in ("metrics", "spectra", "timings"):
            assert run.records(name)  # type: ignore[arg-type]
