"""What the report promises about its words and its weight."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from manyheads.report.page import write

from .made import comparison
from .test_page import FOUR, KNOWN, TOP1

ROOT = Path(__file__).resolve().parents[2]
LIGHT = """
import json, sys
from pathlib import Path
from manyheads.report.page import write
write(Path(sys.argv[1]), Path(sys.argv[2]))
print(json.dumps([name for name in ("torch", "numpy", "matplotlib", "scipy") if name in sys.modules]))
"""


def test_no_result_is_called_significant() -> None:
    """No test behind the word is ever made, so neither source nor documents may use it of a result."""
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    found = [file.name for file in files if re.search(r"significan", file.read_text(), flags=re.IGNORECASE)]
    assert found == []


def test_the_page_does_not_say_it_either(tmp_path: Path) -> None:
    comparison(tmp_path / "runs", FOUR, "small", TOP1)
    write(tmp_path / "runs", tmp_path / "page.html", experiments=KNOWN)
    assert "significan" not in (tmp_path / "page.html").read_text().lower()


def test_a_page_takes_neither_torch_nor_numpy(tmp_path: Path) -> None:
    comparison(tmp_path / "runs", FOUR, "small", TOP1)
    done = subprocess.run(
        [sys.executable, "-c", LIGHT, str(tmp_path / "runs"), str(tmp_path / "page.html")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == []
