# The course's commands. Needs git, make and Python 3.11 or newer with venv.
#   another Python:            make lab PYTHON=python3.12
#   Linux without an NVIDIA GPU: PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu make lab

PYTHON ?= python3
CHAPTER ?=
PART ?=
ARGS ?=
READY := .venv/ready
COURSE := .venv/bin/python -m course_utils.workshop

.PHONY: help lab slides test machines gpu wheels bench execute format reset student

help: ## list these commands
	@sed -n 's/^\([a-z]*\):.*## /make \1|/p' Makefile | awk -F'|' '{ printf "%-14s%s\n", $$1, $$2 }'

lab: $(READY) ## open JupyterLab in your own copy, workbook/  (ARGS="--no-browser --port 8899")
	@$(COURSE) lab $(ARGS)

slides: $(READY) ## open a chapter as live slides  (CHAPTER=00)
	@$(COURSE) slides "$(CHAPTER)" $(ARGS)

reset: $(READY) ## begin one chapter of workbook/ anew, keeping your notebook beside it  (CHAPTER=00)
	@$(COURSE) reset "$(CHAPTER)"

student: $(READY) ## write copies without solutions and outputs to student/
	@$(COURSE) student

execute: $(READY) ## run and save the notebooks, or one of them  (CHAPTER=00)
	@$(COURSE) execute "$(CHAPTER)"

format: $(READY) ## format the code, notebooks included
	@.venv/bin/ruff check --fix . && .venv/bin/ruff format .

test: $(READY) ## run every test, or one part: style, package, notebooks, accelerator, browser  (PART=style)
	@.venv/bin/python -m tests $(PART)

machines: $(READY) ## run the notebooks on one core and in 2 GB, where such limits can be set
	@.venv/bin/python -m tests.machines

# With PYTHON=python3.12 that Python's own torch; what it lacks comes from wheels/.
GPU_PYTHON = $(if $(filter command,$(origin PYTHON)),$(PYTHON),$(firstword $(wildcard .venv/bin/python) $(PYTHON)))
gpu: ## check the course on this machine's accelerator and record it  (PYTHON=python3.12)
	@$(GPU_PYTHON) -m tests.gpu $(ARGS)

wheels: $(READY) ## collect what make gpu needs where pip reaches nothing  (ARGS="--python 3.12")
	@.venv/bin/python -m tests.gpu.wheels $(ARGS)

bench: $(READY) ## set the instruments beside torch's own and other packages, time the chapters  (some minutes, 1 GB of temporary disk; leave the machine alone)
	@.venv/bin/python -m tests.bench

# Another PyTorch has an environment of its own beside .venv, with all else as in requirements.txt.
.PHONY: torch
torch: .torch/$(VERSION)/ready ## run the package's tests on another PyTorch  (VERSION=2.11.0)
	.torch/$(VERSION)/bin/python -m pytest tests --ignore=tests/browser $(ARGS)

.torch//ready:
	@echo "Which PyTorch? make torch VERSION=2.11.0"; exit 1

.torch/%/ready: requirements.txt pyproject.toml
	@echo "Installing the course with PyTorch $* into .torch/$*: this takes some minutes, once."
	@$(PYTHON) -m venv --clear .torch/$*
	@sed 's/^torch==.*/torch==$*/' requirements.txt | .torch/$*/bin/python -m pip install -qq --disable-pip-version-check -r /dev/stdin
	@touch $@

# The stamp is newer than both files: nothing to install.
$(READY): requirements.txt pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "Python is missing: no '$(PYTHON)' here. Install Python 3.11 or newer, or name yours: make PYTHON=..."; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python is too old: the course needs 3.11 or newer, this is $$($(PYTHON) -V 2>&1). Name a newer one: make PYTHON=..."; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "Python's venv is missing: install it (Debian, Ubuntu: apt install python3-venv)."; exit 1; }
	@echo "Installing the course into .venv: this takes some minutes, once."
	@.venv/bin/python -c pass 2>/dev/null || $(PYTHON) -m venv --clear .venv
	@.venv/bin/python -m pip install -qq --disable-pip-version-check -r requirements.txt
	@touch $@
