"""Every command that the product prints as advice runs when it is pasted into a shell."""

from __future__ import annotations

import html
import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from manyheads.arch.families import crammed_bert, gpt2, vit
from manyheads.cli import main
from manyheads.experiments.demo import DEMO
from manyheads.spec import serialise as record
from tests.report.made import quick

QUICK = ["--steps", "1", "--batch", "2", "--set", "task.test_limit=8", "--device", "cpu", "--quiet"]
RECORDS = {
    "image": vit(32, 4, 2, 16, 64, image=40, patch=8, classes=7),
    "text": gpt2(32, 4, 2, 16, 64, vocab=99, tokens=16, positions=16),
    "masked": crammed_bert(32, 4, 2, 16, 48, vocab=99, tokens=16),
}


def say(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    """What a command prints, with its lines as they are."""
    with pytest.raises(SystemExit) as left:
        main(list(args))
    told = capsys.readouterr()
    assert not left.value.code, told.err
    return told.out


def pasted(line: str, folder: Path) -> list[list[str]]:
    """The arguments of every `manyheads` that a real shell calls for `line`."""
    shim = folder / "bin" / "manyheads"
    shim.parent.mkdir(exist_ok=True)
    code = f"import json, sys; open({str(folder / 'calls')!r}, 'a').write(json.dumps(sys.argv[1:]) + chr(10))"
    shim.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -S -c {shlex.quote(code)} "$@"\n')
    shim.chmod(0o755)
    env = os.environ | {"PATH": f"{shim.parent}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run(["bash", "-eu", "-c", line], cwd=folder, env=env, check=True)
    return [json.loads(call) for call in (folder / "calls").read_text().splitlines()]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder whose name a shell would split, and a folder of data."""
    folder = tmp_path / "my work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("MANYHEADS_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "80")
    return folder


def pictures(folder: Path) -> None:
    """Three classes of three images each, of another size than the model takes."""
    images = pytest.importorskip("PIL.Image", reason="Pillow is in the vision extra")
    for split in ("train", "val"):
        for kind in ("a", "b", "c"):
            (folder / split / kind).mkdir(parents=True)
            for i in range(3):
                pixels = np.full((30, 24, 3), 40 * i, np.uint8)
                images.fromarray(pixels).save(folder / split / kind / f"{i}.png")


@pytest.mark.parametrize(
    ("kind", "data"),
    [("image", None), ("image", "folder:own"), ("text", None), ("text", "shards:own"), ("masked", None)],
)
def test_the_arms_of_a_plan_are_trained_as_printed(
    kind: str, data: str | None, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record.save(RECORDS[kind], Path("mine.json"))
    if data == "folder:own":
        pictures(place.parent / "data" / "own")
    if data == "shards:own":
        Path("text.txt").write_text("\n".join(f"Tom has {i} red balls." for i in range(400)))
        for split in ("train", "valid"):
            words = ("--tokenizer", "bytes", "--between", "line", "--workers", "1", "--split", split)
            say(capsys, "tokenize", "text.txt", "--out", str(place.parent / "data" / "own"), *words)
    asked = ("plan", "mine.json", "--params", "0.7x", "--multiples", "1,8,8", "--arms", "the arms")
    out = say(capsys, *asked, *([] if data is None else ["--data", data]))
    (line,) = [line for line in out.splitlines() if "manyheads train" in line]
    calls = pasted(line.strip(), place)
    assert {call[1] for call in calls} == {f"the arms/{file.name}" for file in Path("the arms").iterdir()}
    assert len(calls) == 3 * len(list(Path("the arms").iterdir()))
    few = ["--set", "task.limit=8"] if kind == "image" else []
    for call in [calls[0], calls[-1]]:
        assert re.match(r"top1|loss", say(capsys, *call, *QUICK, *few))


@pytest.mark.parametrize("held", [False, True])
def test_a_tokenized_corpus_is_trained_on_as_printed(
    held: bool, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("text.txt").write_text("\n".join(f"Tom has {i} red balls." for i in range(2000)))
    words = ("--tokenizer", "bytes", "--between", "line", "--workers", "1")
    if held:
        out = say(capsys, "tokenize", "text.txt", "--out", "my toms", *words, "--split", "valid")
        assert "manyheads train" not in out
    out = say(capsys, "tokenize", "text.txt", "--out", "my toms", *words)
    (call,) = pasted(out[out.index("manyheads train") :], place)
    small = ["--dry-run"] if held else [*QUICK, "--set", "task.tokens=16", "--set", "recipe.checkpoint_every=0"]
    assert re.match(r"parameters|loss", say(capsys, *call, *small))


def test_the_report_of_an_experiment_is_written_as_printed(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = say(capsys, "run", "theorem", "--scale", "smoke", "--executor", "process", "--out", "my runs", "--quiet")
    (call,) = pasted(out[out.index("manyheads report") :], place)
    assert "page: report.html" in say(capsys, *call)


def test_a_page_is_written_again_as_it_says(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quick(Path("-my runs"), DEMO, "smoke", lambda spec: 0.8 + 0.01 * spec.seed)
    asked = ("--against", "depth_only", "--no-loss", "0.015", "--metric", "top1", "--assets", "all files")
    say(capsys, "report", "./-my runs", "--out", "./-page.html", *asked)
    page = Path("-page.html").read_text()
    line = html.unescape(re.findall("<pre>(.*?)</pre>", page)[-1])
    (call,) = pasted(line, place)
    Path("-page.html").unlink()
    say(capsys, *call)
    assert Path("-page.html").read_text() == page


def test_one_of_many_experiments_is_reported_as_printed(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for i in range(4):
        quick(Path("my runs"), replace(DEMO, name=f"try_{i}"), "smoke", lambda spec: 0.8 + 0.01 * spec.seed)
    asked = ("--against", "depth_only", "--equal", "0.5")
    out = say(capsys, "report", "my runs", *asked)
    line = next(line for line in out.splitlines() if line.startswith("one of them in full: "))
    (call,) = pasted(line.partition(": ")[2], place)
    assert call[-2:] == ["--only", "try_0"]
    assert {*asked} <= {*call}
    assert "try_1" not in say(capsys, *call)
