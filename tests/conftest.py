"""Same numbers twice, and shapes that are checked.

Hypothesis draws the same examples in every run, and does not fail a test because the machine is slow.

The shapes and types in the annotations of ROOMS are checked at every call while a test of CHECKED runs, or any test with
MANYHEADS_SHAPES=all; with MANYHEADS_SHAPES=none they are never checked. They are not checked either in a test marked
`unchecked`: it hands a model what its annotations forbid, to read the refusal, or traces a model for torch.compile or
torch.export, which cannot follow the checks. Where beartype is not installed, as on a machine with only PyTorch,
nothing is checked.
"""

import importlib
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

if importlib.util.find_spec("hypothesis"):  # absent where only `make test-gpu` runs
    from hypothesis import settings

    settings.register_profile("ci", derandomize=True, deadline=None)
    settings.load_profile("ci")

TESTS = Path(__file__).parent
ROOMS = ("nn", "models", "conditioning")
CHECKED = ("nn", "models", "parity", "conditioning")  # folders of tests
GAUSSIAN = "manyheads.conditioning.theory.gaussian"
SCOPE = os.environ.get("MANYHEADS_SHAPES", "rooms")
SHAPES = SCOPE != "none" and bool(importlib.util.find_spec("beartype"))


def annotated() -> list[str]:
    """The modules of ROOMS, but for two kinds. Triton compiles the source of kernels, which no decorator may change;
    and beartype does not read a generic NamedTuple, which `theory.gaussian` answers with."""
    sources = TESTS.parent / "src" / "manyheads"
    files = [file for room in ROOMS for file in (sources / room).rglob("*.py") if file.stem != "__init__"]
    names = [".".join(("manyheads", *file.relative_to(sources).with_suffix("").parts)) for file in files]
    return sorted(name for name in names if "kernel" not in name.rpartition(".")[2] and name != GAUSSIAN)


if SHAPES:  # before any of these modules is imported
    import jaxtyping

    importlib.import_module("tests.annotations")  # the hook finds it as an attribute of its package
    jaxtyping.install_import_hook(annotated(), "tests.annotations.check")
    jaxtyping.config.update("jaxtyping_disable", SCOPE != "all")


def pytest_configure(config: pytest.Config) -> None:
    """Announce the marker."""
    config.addinivalue_line("markers", "unchecked: annotations are not checked, but broken on purpose or traced")


@pytest.fixture(autouse=True)
def shapes(request: pytest.FixtureRequest) -> Iterator[None]:
    """Check annotations while this test runs, if it is one of those."""
    folder = request.path.relative_to(TESTS).parts[0]
    if not SHAPES or (SCOPE != "all" and folder not in CHECKED):
        yield
        return
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", request.node.get_closest_marker("unchecked") is not None)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)
