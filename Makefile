# Everything sets itself up: `make demo` and `make test` need only Python 3.10+ (and Node.js where present).
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
DEMO := build/demo

.PHONY: demo test check lint bench setup format clean

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml tools/setup.sh
	PYTHON="$(PYTHON)" VENV="$(VENV)" sh tools/setup.sh
	touch $@

demo: setup
	mkdir -p $(DEMO)
	$(BIN)/python examples/smolvla_model.py -o $(DEMO)/smolvla.onnx
	$(BIN)/onnxreduce $(DEMO)/smolvla.onnx --oracle webgpu-vs-wasm --inputs $(DEMO)/smolvla.npz -o $(DEMO)/smolvla-reduced --force
	@echo
	@echo "The builder script, $(DEMO)/smolvla-reduced/build_repro.py, begins:"
	@sed -n '1,40p' $(DEMO)/smolvla-reduced/build_repro.py

test: setup
	$(BIN)/pytest

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

check: lint
	$(BIN)/pytest -m "not browser and not slow"

bench: setup
	$(BIN)/python benchmarks/planted.py
	$(BIN)/python benchmarks/candidates.py
	$(BIN)/python benchmarks/growth.py
	$(BIN)/python benchmarks/reductions.py

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
