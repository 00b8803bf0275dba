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
# The original packages live in an environment of their own, always.
OPENMMLAB := .venv-openmmlab
# More arguments of pytest, such as ARGS='-k windows'.
ARGS ?=

.PHONY: demo test test-openmmlab lint venv clean
.DEFAULT_GOAL := help

help:
	@echo 'make demo   draw a dataset, train, adapt, test, export: a page of maps'
	@echo 'make test   run the tests'
	@echo 'make test-openmmlab   run them on the original mmseg and mmengine'
	@echo 'make lint   check the style'
	@echo 'make venv   only set up the environment'

demo: venv
	$(PYTHON) tools/demo.py

test: venv
	$(PYTHON) -m pytest -n 2 --dist loadfile $(ARGS)

test-openmmlab: $(OPENMMLAB)/.abnn-mmseg-installed
	$(OPENMMLAB)/bin/python -m pytest -n 2 --dist loadfile $(ARGS)

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

# mmcv-lite is mmcv without its compiled module, for which a stub stands in.
$(OPENMMLAB)/.abnn-mmseg-installed: setup.py constraints.txt
	@test -x $(@D)/bin/python || python3 -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check \
	    -c constraints.txt torch==2.13.0
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check \
	    -c constraints.txt mmsegmentation mmengine mmcv-lite ftfy regex \
	    -e '.[dev]'
	@ln -sf $(CURDIR)/tests/openmmlab/_ext.py $$($(@D)/bin/python -c \
	    'import mmcv; print(mmcv.__path__[0])')
	@touch $@

clean:
	rm -rf .venv $(OPENMMLAB) work_dirs data/muad_sketch
