# `make demo` and `make test` need python3 with pip and venv, nothing else.
# An active virtual or conda environment is used as it is; otherwise .venv is
# made and reused.
SHELL := /bin/bash
# Threads that spin long while they wait are ten times slower when the machine
# is shared, those that never spin are slower when it is not.
export GOMP_SPINCOUNT ?= 20000
ifneq ($(or $(VIRTUAL_ENV),$(CONDA_PREFIX)),)
  PYTHON := python
  ENV := $(or $(VIRTUAL_ENV),$(CONDA_PREFIX))
else
  PYTHON := .venv/bin/python
  ENV := .venv
endif
PIP := $(PYTHON) -m pip install --quiet --disable-pip-version-check
INSTALLED := $(ENV)/.abnn-mmseg-installed

.PHONY: demo test lint venv clean
.DEFAULT_GOAL := help

help:
	@echo 'make demo   draw a dataset, train, adapt, test, export: a page of maps'
	@echo 'make test   run the tests'
	@echo 'make lint   check the style'
	@echo 'make venv   only set up the environment'

demo: venv
	$(PYTHON) tools/demo.py

test: venv
	$(PYTHON) -m pytest

lint: venv
	$(PYTHON) -m ruff check .

venv: $(INSTALLED)

# An environment of ours gets the tested versions; somebody else's keeps what
# it has and gets what is missing.
$(INSTALLED): setup.py constraints.txt
ifeq ($(ENV),.venv)
	@test -x $(PYTHON) || python3 -m venv .venv
	$(PIP) -c constraints.txt torch==2.13.0
	$(PIP) -c constraints.txt -e '.[onedl,dev]'
else
	@$(PYTHON) -c 'import torch' 2> /dev/null || $(PIP) torch==2.13.0
	@$(PYTHON) -c 'import mmseg' 2> /dev/null || $(PIP) -e '.[onedl]'
	$(PIP) -e '.[dev]'
endif
	@touch $@

clean:
	rm -rf .venv work_dirs data/muad_sketch
