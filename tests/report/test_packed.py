"""A page made from a pack equals the page made from its folders, thinned in the same way."""

from __future__ import annotations

import json
import math
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

from manyheads.cli import main
from manyheads.experiments.demo import DEMO
from manyheads.report.page import write
from manyheads.report.read_runs import read_runs
from manyheads.report.run_measurements import by_kind
from manyheads.runs import Run, find
from manyheads.runs.pack import pack
from manyheads.runs.thinned import thin_metrics, thin_spectra, thin_timings
from manyheads.spec.errors import UserError
from manyheads.spec.experiment import folder, specs
from manyheads.spec.experiment_file import save
from tests.report.made import result

HREF = re.compile(r' href="[^"#]*"')
COMMAND = re.compile(r"<h3>This page</h3><pre>.*?</pre>", re.S)


def probes(draw: random.Random, points: int, layers: int) -> list[dict[str, object]]:
    """Probe records with everything that a probe can measure."""
    names = ("tokens_kappa", "mlp_hidden_kappa", "mlp_in_kappa", "mlp_out_kappa", "entropy", "heads_apart")
    return [
        {
            "step": 10 * point,
            "kind": "softmax",
            "layer": layer,
            "name": f"blocks.{layer}",
            "gaussian_log_kappa": 1.0,
            "log_kappa": draw.uniform(1, 9),
            "mean_kappa": math.exp(draw.uniform(1, 9)),
            "head_correlation": draw.random(),
            "stable_rank": draw.random(),
            "effective_rank": None,
            "jacobian": {"kappa": draw.uniform(1, 50), "rank": 3.0},
            "detail": {name: draw.uniform(1, 5) for name in names},
        }
        for point in range(points)
        for layer in range(layers)
    ]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of the demonstration with more records than a pack keeps."""
    root, draw = tmp_path_factory.mktemp("packed") / "runs", random.Random(3)
    for spec in specs(DEMO, "smoke"):
        path, top1 = folder(root, spec), draw.random()
        run = Run.create(path, spec)
        with run.locked():
            for step in range(1, 301):
                run.metrics.append({"kind": "train", "step": step, "samples": step, "loss": draw.random(), "lr": 1e-3})
                if step % 30 == 0:
                    run.metrics.append({"kind": "eval", "step": step, "samples": step, "top1": top1 * step / 300})
                run.timings.append({"step": step, "seconds": step / 9, "rate": 5.0})
            for record in probes(draw, 31, 7):
                run.spectra.append(record)
            run.finish(result(top1, 60.0, 0.1))
    return root


def thinned(root: Path, out: Path) -> Path:
    """The folders of `root` again, thinned as a pack is."""
    for run in find(root):
        target = out / run.path.relative_to(root)
        target.mkdir(parents=True)
        for name in ("spec.json", "status.json", "result.json"):
            (target / name).write_bytes((run.path / name).read_bytes())
        for name, thin in (("metrics", thin_metrics), ("spectra", thin_spectra), ("timings", thin_timings)):
            records = thin(run.records(name))  # type: ignore[arg-type]
            (target / f"{name}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return out


def page(root: Path, out: Path) -> str:
    """The page about `root` without its links to folders and its command."""
    write(root, out)
    return COMMAND.sub("", HREF.sub("", out.read_text()))


def test_a_page_from_a_pack_equals_the_page_from_its_thinned_folders(root: Path, tmp_path: Path) -> None:
    out = tmp_path / "pack" / "demo.jsonl.xz"
    pack(root, out)
    from_folders = page(thinned(root, tmp_path / "thinned"), tmp_path / "folders.html")
    assert page(out, tmp_path / "pack.html") == from_folders
    assert page(out.parent, tmp_path / "around.html") == from_folders
    assert 'href="pack/demo.jsonl.xz"' in (tmp_path / "pack.html").read_text()


def test_thinning_keeps_every_number_but_points_of_curves(root: Path, tmp_path: Path) -> None:
    (run, *_) = find(root)
    whole, kept = (
        by_kind(records)["softmax"] for records in (run.records("spectra"), thin_spectra(run.records("spectra")))
    )
    assert (kept.layers, kept.last, kept.gaussian) == (whole.layers, whole.last, whole.gaussian)
    assert len(kept.log_kappa) < len(whole.log_kappa)
    for curve in ("log_kappa", "log_mean_kappa"):
        assert set(getattr(kept, curve)) < set(getattr(whole, curve))
    assert kept.more.keys() == whole.more.keys()
    assert len(kept.more) == 7
    for name, points in kept.more.items():
        assert set(points) < set(whole.more[name])


def test_a_damaged_pack_is_refused_alone_and_listed_among_others(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = tmp_path / "all" / "good.jsonl.xz", tmp_path / "all" / "bad.jsonl.xz"
    pack(root, good)
    bad.write_bytes(good.read_bytes()[:5000])
    with pytest.raises(UserError, match=r"bad\.jsonl\.xz is damaged: line \d+ "):
        write(bad, tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()
    main_exits("report", tmp_path / "all", "--out", tmp_path / "page.html", code=0)
    told = capsys.readouterr().out
    assert "1 pack cannot be read" in told
    assert "bad.jsonl.xz is damaged: line" in told
    assert "Folders and packs that cannot be read" in (tmp_path / "page.html").read_text()


def test_runs_that_lie_in_two_packs_are_told_and_counted_once(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one", "two"):
        pack(root, tmp_path / "all" / f"{name}.jsonl.xz")
    reported = write(tmp_path / "all", tmp_path / "page.html")
    planned = len(specs(DEMO, "smoke"))
    assert sum(len(section.runs) for section in reported.sections) == planned
    assert f"Runs that lie in several places ({planned}); each counts once" in (tmp_path / "page.html").read_text()
    main_exits("report", tmp_path / "all", "--out", tmp_path / "page.html", code=0)
    assert f"{planned} runs lie in several places and count once" in capsys.readouterr().out


def test_the_command_packs_names_what_it_leaves_out_and_fails(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main_exits("pack", root, "--out", tmp_path / "all.jsonl.xz", code=0)
    assert "runs of " in capsys.readouterr().out
    begun = tmp_path / "more" / "begun"
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "all.jsonl.xz").write_bytes((tmp_path / "all.jsonl.xz").read_bytes())
    Run.create(begun, replace(specs(DEMO, "smoke")[0], seed=77))
    main_exits("pack", tmp_path / "more", "--out", tmp_path / "again.jsonl.xz", code=1)
    assert f"left out: {begun} is new and not finished" in capsys.readouterr().err
    assert (tmp_path / "again.jsonl.xz").read_bytes() == (tmp_path / "all.jsonl.xz").read_bytes()
    main_exits("pack", tmp_path / "none", "--out", tmp_path / "x.jsonl.xz", code=2)
    main_exits("pack", root, "--out", tmp_path / "again.jsonl.xz", code=2)
    assert "never overwritten" in capsys.readouterr().err


def test_a_list_of_runs_reads_a_pack(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "all.jsonl.xz"
    pack(root, out)
    main_exits("runs", out, "--json", code=0)
    rows = json.loads(capsys.readouterr().out)
    main_exits("runs", root, "--json", code=0)
    folders = json.loads(capsys.readouterr().out)
    place = ("path", "pack")
    assert [{k: v for k, v in row.items() if k not in place} for row in rows] == [
        {k: v for k, v in row.items() if k not in place} for row in folders
    ]
    assert {row["pack"] for row in rows} == {str(out)}


def main_exits(*args: object, code: int) -> None:
    """Call the command, which has to end with `code`."""
    with pytest.raises(SystemExit) as stop:
        main([str(arg) for arg in args])
    assert (stop.value.code or 0) == code


def test_an_experiment_that_was_stated_is_packed_with_its_runs(root: Path, tmp_path: Path) -> None:
    own = replace(DEMO, name="own", title="What I expect", question="Is mine better?", run="")
    for run in find(root):
        assert run.spec is not None
        label = {**run.spec.label, "experiment": "own"}
        here = Run.create(tmp_path / "runs" / "own-smoke" / run.path.name, replace(run.spec, label=label))
        assert run.result is not None
        here.finish(run.result)
    save(own, tmp_path / "runs" / "own-smoke" / "experiment.json")
    out = tmp_path / "pack" / "own.jsonl.xz"
    pack(tmp_path / "runs", out)
    (section,) = read_runs(out, {}).sections
    assert section.experiment == own
    assert page(out, tmp_path / "pack.html") == page(tmp_path / "runs", tmp_path / "folders.html")
    (tmp_path / "runs" / "own-smoke" / "experiment.json").write_text("{")
    with pytest.raises(UserError, match=r"experiment\.json is damaged"):
        pack(tmp_path / "runs", tmp_path / "other.jsonl.xz")
    assert not (tmp_path / "other.jsonl.xz").exists()
