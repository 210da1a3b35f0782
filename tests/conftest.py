"""Same numbers twice: hypothesis draws the same examples in every run, and is not failed by a slow machine."""

import importlib.util

if importlib.util.find_spec("hypothesis"):  # absent where only `make test-gpu` runs
    from hypothesis import settings

    settings.register_profile("ci", derandomize=True, deadline=None)
    settings.load_profile("ci")
