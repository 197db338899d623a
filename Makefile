# Two commands do everything on a machine with Python 3.11 or newer: `make demo` and `make test`.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo chaos matrix ladder test check bench soak storage-tax schema reference docs clean

# The main job: every strategy against every fault, once each, offline, about a minute. In this order the table reads best.
DEMO := kill oom_kill evict rate_limit corrupt_delta covered_delta
demo: $(VENV)/.installed
	$(BIN)/python -m pytest --chaos $(DEMO:%=scenarios/%.chaos.yaml) -q --chaos-runs 1 -n 2 --dist loadgroup

CHAOS := $(BIN)/python -m pytest -q -n 2 --dist loadgroup --chaos

# All scenarios in one campaign, but for those that are for the storage tax: minutes on two cores.
chaos: $(VENV)/.installed
	$(CHAOS) scenarios -m 'not storage'

# Every strategy on its real runtime against every kind of loss at every phase, with the servers that are at hand.
matrix: $(VENV)/.installed
	$(CHAOS) scenarios/matrix.chaos.yaml --chaos-results .chaos/matrix

# From chat alone over files to processes; what selective checkpoints cost; every snapshot decision audited.
ladder: $(VENV)/.installed
	$(CHAOS) scenarios/live_process.chaos.yaml --chaos-results .chaos/ladder
	$(CHAOS) scenarios/selective.chaos.yaml scenarios/semantic.chaos.yaml --chaos-results .chaos/snapshots

# All tests; those that need root, a kernel or a browser that is not there skip with the reason.
test: $(VENV)/.installed
	$(BIN)/python -m pytest -q -n 2 --dist loadfile

# What CI asks for before the tests.
check: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# How fast crash points are tested, by how their runs are made, to bench.json: about ten minutes on two cores.
bench: $(VENV)/.installed
	$(BIN)/python -m tests.bench.points

# Random plans over all faults: nothing may stay behind. About half an hour on two cores.
PLANS ?= 1000
soak: $(VENV)/.installed
	$(BIN)/python -m tests.bench.soak $(PLANS)

# What each strategy stores, writes and takes, beside what is published: within ten minutes on two cores.
storage-tax: $(VENV)/.installed
	$(BIN)/python -m chaos storage-tax

# The JSON Schema of scenarios, for editors.
schema: $(VENV)/.installed
	$(BIN)/python -m chaos schema > scenarios/scenario-v1.json

# The generated pages of docs/: reference, list for machines, navigation.
reference: $(VENV)/.installed
	$(BIN)/python -m chaos.plugins.manual docs

# The site, into site/, with the Markdown of each page beside it, which is what llms.txt lists.
docs: reference
	$(BIN)/zensical build --clean --strict
	cd docs && find . -name '*.md' -exec cp --parents {} ../site \;

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "pytest-chaos needs Python 3.11 or newer, this is " + sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) .chaos site .cache build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
