# The two commands that matter: `make demo` and `make test`. Both set up all they need.
# Work is done once: a stamp file inside each thing that is made says whether it is up to date.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What the demo needs is installed first, so that it does not wait for the tools of the tests.
LAB := $(VENV)/.made-lab
ENV := $(VENV)/.made
NPM := js/node_modules/.made
FRONT := nbdebug/widgets/static/.made
INSTALL := NBDEBUG_SKIP_JS=1 $(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e
WORKERS ?= 2
OUT_OF_TIME := [Tt]ime-?(d )?[Oo]ut
JS_SOURCES := $(wildcard js/src/*.ts js/src/*/* js/lab/*.* js/lab/src/* js/lab/style/* js/lab/schema/*) js/build.mjs js/styles.mjs
# Where the JupyterLab of the environment looks for extensions; a link, so that it always has what was built last.
LABEXTENSION := $(VENV)/share/jupyter/labextensions/nbdebug
NODE_IS_NEW := process.exit(Number(process.versions.node.split(".")[0]) >= 20 ? 0 : 1)
HAS_NODE := $(shell command -v npm >/dev/null 2>&1 && node -e '$(NODE_IS_NEW)' >/dev/null 2>&1 && echo yes)

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test lab test-slow test-kernels test-adapters test-python test-js lint format build docs pages outputs pictures new-check env lab-env front chromium clean

help:  ## Say what each target does.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: lab-env front  ## Diagnose a buggy model in a real kernel, print the cause and its fix, write the reports.
	@$(BIN)/python scripts/demo.py

lab: env front  ## Open the example notebooks in JupyterLab.
	@$(BIN)/jupyter lab --ServerApp.root_dir=example_notebooks $(if $(filter 0,$(shell id -u)),--allow-root)

test: need-node env front chromium lint test-js test-python  ## Run everything but the whole matrices.

test-slow: env front chromium  ## Run the whole matrices (minutes to hours).
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m slow

test-kernels: env front  ## Try clicks and live curves during a cell with the ipykernels that differ in them.
	bash scripts/test_kernels.sh $(BIN)/python 6.31.0 7.3.0 newest

test-adapters: env  ## Try the callbacks for Lightning, Hugging Face, Keras and fastai with the real libraries.
	bash scripts/test_adapters.sh $(BIN)/python

# One thread each: more only wait for each other. What ran out of time is tried once more, since kernels, browsers and
# processes share two cores with the other tests; it is listed as rerun, and any other failure stands.
test-python: env front
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --reruns 1 --only-rerun '$(OUT_OF_TIME)' -raR

test-js: need-node $(NPM)
	npm --prefix js test

lint: env  ## Check the Python code with ruff and mypy.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: env $(if $(HAS_NODE),$(NPM))  ## Put the code in shape.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(if $(HAS_NODE),npm --prefix js run format)

build: env front  ## Make the sdist and the wheel in dist/.
	$(BIN)/python -m build

docs: pages  ## Write the generated pages, then build the site of the documentation in build/site/.
	$(BIN)/python scripts/site_pages.py
	@echo "Open build/site/index.html, or with its search: $(BIN)/python -m http.server -d build/site"

pages: env  ## Write only the generated pages of docs/ and the tables of README.md.
	$(BIN)/python scripts/docs.py

new-check:  ## Begin a check: its file, its test and its line in the tree (NAME=my-bug STEP=one-pass).
	@$(PYTHON) scripts/new_check.py '$(NAME)' $(STEP)

outputs: env front  ## Run the example notebooks, the README's example and its table of bugs anew, and store what they show.
	$(BIN)/python scripts/store_outputs.py
	$(BIN)/python scripts/known_bugs.py

pictures: env front chromium  ## Take the screenshots and the moving picture of docs/images/ anew.
	$(BIN)/python scripts/wizard_gif.py
	NBDEBUG_SHOTS=build/shots $(BIN)/python -m pytest -q tests/browser/test_wizard.py -k "finds_the_softmax and lab"
	cp build/shots/wizard-lab-light.png docs/images/wizard.png
	NBDEBUG_SHOTS=build/shots $(BIN)/python -m pytest -q tests/browser -k "lab and (one_sample or (every_view and Light))"
	for view in batch activations gradients layers graph curve; do cp build/shots/$$view-lab-light.png docs/images/$$view.png; done

clean:  ## Remove the environment and everything that was built.
	rm -rf $(VENV) build dist report.html report.ipynb js/node_modules js/lab/built nbdebug/widgets/static
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -rf .mypy_cache .pytest_cache .ruff_cache

# --- what the targets above need --------------------------------------------------------------------------

env: $(ENV)
lab-env: $(LAB)
front: $(if $(HAS_NODE),$(FRONT) $(LABEXTENSION),no-node)

.PHONY: need-node no-node
need-node:
	@$(if $(HAS_NODE),:,echo "This target needs Node.js 20 or newer, with npm, on the PATH." >&2; exit 1)
no-node:
	@echo "Node.js 20 or newer was not found: the custom views fall back to plain ipywidgets." >&2

$(LAB): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "nbdebug needs Python 3.10 or newer as '$(PYTHON)'; try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
	  { rm -rf $(VENV); echo "'$(PYTHON) -m venv' failed; on Debian and Ubuntu it is in the package python3-venv." >&2; exit 1; }
	@# The front end has its own rule below, so the build hook need not make it a second time.
	@echo "Installing nbdebug and what it needs into $(VENV); the first time takes a minute or two."
	@$(INSTALL) ".[lab]"
	@touch $@

$(ENV): $(LAB)
	@echo "Installing the tools of the tests into $(VENV)."
	@$(INSTALL) ".[dev]"
	@touch $@

$(NPM): js/package.json js/package-lock.json
	npm --prefix js ci
	@touch $@

$(FRONT): $(NPM) $(JS_SOURCES)
	npm --prefix js run --silent build
	@touch $@

$(LABEXTENSION): $(LAB)
	@mkdir -p $(@D)
	@rm -rf $@ && ln -s ../../../../js/lab/built/nbdebug $@

chromium:
	@bash scripts/chromium.sh
