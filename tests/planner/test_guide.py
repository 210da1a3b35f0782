"""docs/plan.md tells the truth: its commands print what it shows, its table of warnings is the table of rules."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from manyheads.cli import app, main
from manyheads.cli.plan import plan
from manyheads.planner.reasons_and_warnings import RULES

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "plan.md").read_text()
BLOCKS = re.findall(r"^```console\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)

if all(command.callback is not plan for command in app.registered_commands):  # wherever it is not listed yet
    app.command()(plan)


def settled(text: str) -> list[str]:
    """Lines without trailing blanks and without the time it took."""
    return [re.sub(r"\(\d+\.\d\d s\)", "(TIME)", line).rstrip() for line in text.strip().splitlines()]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.splitlines()[0][17:60])
def test_the_guides_outputs_are_real(
    block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = re.search(r"^```json\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)
    assert config is not None
    (tmp_path / "config.json").write_text(config[1])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    line, _, shown = block.partition("\n")
    with pytest.raises(SystemExit):
        main(shlex.split(line.removeprefix("$ manyheads "), comments=True))
    out = capsys.readouterr()
    assert settled(out.out + out.err) == settled(shown)


def test_every_warning_is_in_the_guides_table() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (serious|caution) \|", TEXT, flags=re.MULTILINE))
    assert rows == {rule.code: rule.level for rule in RULES}
