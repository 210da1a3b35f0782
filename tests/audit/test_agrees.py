"""When does an exact count print as a figure?"""

from __future__ import annotations

import pytest

from manyheads.paper.readings import agrees


@pytest.mark.parametrize(
    ("count", "printed", "unit", "how"),
    [
        (86_567_656, "86.6", "M", "rounds"),
        (119_589_889, "119", "M", "truncates"),
        (119_589_889, "120", "M", "rounds"),
        (86_325_072, "86", "M", "rounds"),
        (62_653_416, "62.0", "M", ""),
        (192_906, "192.9", "k", "rounds"),
        (193_046, "192.9", "k", ""),
        (59_950_000, "60.0", "M", "rounds"),
        (59_949_999, "60.0", "M", ""),
    ],
)
def test_agrees(count: int, printed: str, unit: str, how: str) -> None:
    assert agrees(count, printed, unit) == how
