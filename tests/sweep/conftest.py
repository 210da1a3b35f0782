"""What a run comes to when nobody kills anything, for the tests that kill."""

from __future__ import annotations

import pytest

from .killing import undisturbed, wanted


@pytest.fixture(scope="session")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    """The measurements of the run of `wanted`."""
    return undisturbed(wanted(tmp_path_factory.mktemp("quiet")))[0]
