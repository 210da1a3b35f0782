"""A file can be read in one sitting."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest

LONGEST = 400
MEDIAN = 160


def lengths(root: Path, *folders: str) -> dict[str, int]:
    """Lines of each Python file under `folders`."""
    files = [file for folder in folders for file in (root / folder).rglob("*.py")]
    return {file.relative_to(root).as_posix(): len(file.read_text().splitlines()) for file in sorted(files)}


@pytest.mark.parametrize("folder", ["src", "tests", "benchmarks"])
def test_no_file_is_longer_than_400_lines(root: Path, folder: str) -> None:
    long = {path: lines for path, lines in lengths(root, folder).items() if lines > LONGEST}
    assert not long


def test_the_median_source_file_has_at_most_160_lines(root: Path) -> None:
    lines = lengths(root, "src")
    middle = median(lines.values())
    longest = sorted(lines.items(), key=lambda item: -item[1])[:12]
    assert middle <= MEDIAN, f"median {middle}; the longest are {longest}"
