# Everything happens in .venv and the cache folder; nothing else on the machine is touched.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet install
PROMPT ?= The capital of France is

EXAMPLES := c_target softcap
GPU_HALF := tests/conformance tests/cuda tests/kernels
TEST_HALF := $(GPU_HALF) tests/cpu tests/examples tests/frontend tests/ir

# Run tests chosen by $(1) in two processes: those in the folders $(2), and all others.
define in_halves
@$(BIN)/python -m pytest $(1) $(2) > $(VENV)/half.log 2>&1 & half=$$!; \
$(BIN)/python -m pytest $(1) $(addprefix --ignore=,$(2)); other=$$?; \
wait $$half; half=$$?; cat $(VENV)/half.log; [ $$half -eq 0 ] && [ $$other -eq 0 ]
endef

PARSERS := gguf safetensors folder tokenizer onnx template stage compiled artifact
SECONDS_EACH ?= 120
CODE := lamina tests examples bench docs

.DEFAULT_GOAL := help
.PHONY: help demo test test-gpu test-onnx examples fuzz bench-quick check lint format-check types docs-check package format docs clean

help: ## Say what each target does
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.installed ## Install, fetch a 98 MB model, compile it, and let it write
	@echo "== The model (lamina fetch smollm2)"
	@$(BIN)/lamina fetch smollm2
	@echo "== Its text (lamina generate smollm2 -p '$(PROMPT)' -n 48 --echo)"
	@$(BIN)/lamina generate smollm2 -p '$(PROMPT)' -n 48 --echo

test: $(VENV)/.installed-dev ## Install, and run the whole test suite
	@echo "== Tests (pytest), half of them beside the other half, which is shown last"
	$(call in_halves,-m "not gpu and not onnx",$(TEST_HALF))

test-gpu: $(VENV)/.installed-dev ## Run the long checks of GPU targets, which need no GPU
	@echo "== GPU tests (pytest -m gpu), half of them beside the other half, which is shown last"
	$(call in_halves,-m gpu,$(GPU_HALF))

test-onnx: $(VENV)/.installed-dev ## Run the checks of ONNX operators, and the conformance tests of the package onnx
	@echo "== ONNX tests (pytest -m onnx)"
	@$(BIN)/python -m pytest -m onnx
	@echo "== Conformance (tests/conformance/onnx_suite.py)"
	@$(BIN)/python tests/conformance/onnx_suite.py

examples: $(VENV)/.made ## Build, install and test each example in an environment of its own
	@for example in $(EXAMPLES); do \
	  echo "== Example (.ci/example $$example)"; .ci/example $(BIN)/python $$example || exit 1; \
	done

fuzz: $(VENV)/.installed-fuzz ## Feed each parser files that are nearly right, for two minutes
	@for parser in $(PARSERS); do \
	  echo "== Fuzzing (tests/fuzz/run.py $$parser)"; \
	  $(BIN)/python tests/fuzz/run.py $$parser --seconds $(SECONDS_EACH) || exit 1; \
	done

bench-quick: $(VENV)/.installed ## Measure a few kernels and models beside recorded figures
	@echo "== Benchmarks (bench/quick.py)"
	@$(BIN)/python bench/quick.py $(if $(PEER_PYTHON),--peer-python $(PEER_PYTHON))

check: lint format-check types docs-check package ## Lint, format, types, docs, and the built package

lint: $(VENV)/.installed-dev ## Look for mistakes and departures from the house style
	@echo "== Lint (ruff check)"
	@$(BIN)/ruff check $(wildcard $(CODE))

format-check: $(VENV)/.installed-dev ## See that the code is formatted
	@echo "== Format (ruff format --check)"
	@$(BIN)/ruff format --check $(wildcard $(CODE))

types: $(VENV)/.installed-dev ## Check the types
	@echo "== Types (pyright)"
	@$(BIN)/pyright --pythonpath $(BIN)/python

docs-check: $(VENV)/.installed-dev ## See that the generated pages are fresh
	@echo "== Generated pages (docs/generate.py --check)"
	@LAMINA_PLUGINS=off $(BIN)/python docs/generate.py --check

package: $(VENV)/.installed-dev ## Build sdist and wheel, and try the wheel in a clean environment
	@echo "== Package (.ci/package)"
	@.ci/package $(BIN)/python

format: $(VENV)/.installed-dev ## Format the code, and mend what can be mended by itself
	@$(BIN)/ruff check --fix $(wildcard $(CODE))
	@$(BIN)/ruff format $(wildcard $(CODE))

docs: $(VENV)/.installed-dev ## Write the generated pages anew
	@LAMINA_PLUGINS=off $(BIN)/python docs/generate.py

clean: ## Remove the environment and what tools left behind
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis .fuzz

$(VENV)/.made:
	@echo "== Environment ($(PYTHON) -m venv $(VENV))"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Lamina needs Python 3.11 or newer: make PYTHON=...")'
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.installed: $(VENV)/.made pyproject.toml
	@echo "== Install (pip install -e .)"
	@$(PIP) -e .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.made pyproject.toml
	@echo "== Install (pip install -e '.[dev]')"
	@$(PIP) -e '.[dev]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-fuzz: $(VENV)/.made pyproject.toml
	@echo "== Install (pip install -e '.[fuzz]')"
	@$(PIP) -e '.[fuzz]'
	@touch $@ $(VENV)/.installed
