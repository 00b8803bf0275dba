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


.PHONY: demo camvid away docs test test-openmmlab lint venv clean
.DEFAULT_GOAL := help

help:
	@echo 'make demo   draw a dataset, make a network Bayesian, test: a page of maps'
	@echo 'make camvid CAMVID=path   compare methods on your copy of CamVid'
	@echo 'make away CITYSCAPES_SMALL=path ANOMALY_DEV=path   the same, on roads'
	@echo '  that a Cityscapes base has not seen'
	@echo 'make test   run the tests'
	@echo 'make test-openmmlab   run them on the original mmseg and mmengine'
	@echo 'make lint   check the style and the types'
	@echo 'make docs   build the site of the docs, to read from disk'
	@echo 'make venv   only set up the environment'

demo: venv
	$(PYTHON) tools/demo.py

# Every step goes on where it stopped. BASE=checkpoint.pth is a base of yours,
# BACKBONE=resnet50.pth its start, AMP=1 trains in mixed precision, IMAGES=24
# compares on fewer images.
CAMVID ?= data/camvid
CAMVID_RUNS ?= work_dirs/camvid
export CAMVID CAMVID_RUNS
CAMVID_BASE := configs/deeplabv3plus_r50-caffe-d16_1xb4-800_camvid-224x288.py
CAMVID_ABNN := configs/abnn_deeplabv3plus_camvid.py
BASES := $(foreach s,0 1 2,$(CAMVID_RUNS)/base_$(s)/iter_800.pth)
MEMBERS := $(foreach s,0 1 2,$(CAMVID_RUNS)/abnn_$(s)/members.pth)
FITTED := laplace/laplace swag/swag student/student student_norms/student
FITS := $(foreach f,$(FITTED),$(CAMVID_RUNS)/$(f).pth)

camvid: venv $(BASES) $(MEMBERS) $(FITS)
	$(PYTHON) tools/compare.py configs/compare_camvid.py \
	  --json $(CAMVID_RUNS)/comparison.json $(if $(IMAGES),--images $(IMAGES))

ifdef BASE
$(CAMVID_RUNS)/base_0/iter_800.pth: | venv
	mkdir -p $(@D) && ln -sf $(abspath $(BASE)) $@
endif

$(CAMVID_RUNS)/base_%/iter_800.pth: | venv
	$(PYTHON) tools/train.py $(CAMVID_BASE) --resume --work-dir $(@D) \
	  $(if $(AMP),--amp) --cfg-options randomness.seed=$* \
	  $(if $(BACKBONE),model.backbone.init_cfg.checkpoint=$(BACKBONE))

$(CAMVID_RUNS)/abnn_%/members.pth: $(CAMVID_RUNS)/base_0/iter_800.pth $(CAMVID_ABNN) | venv
	$(PYTHON) tools/train.py $(CAMVID_ABNN) --resume --work-dir $(@D) \
	  $(if $(AMP),--amp) --cfg-options randomness.seed=$*0

$(CAMVID_RUNS)/laplace/laplace.pth: $(CAMVID_RUNS)/base_0/iter_800.pth | venv
	$(PYTHON) tools/fit.py laplace $(CAMVID_BASE) $< --work-dir $(@D) \
	  --structure low_rank --images 120 --draws 1 --val-images 8 --overwrite

# Whole images, as the members have.
$(CAMVID_RUNS)/swag/swag.pth: $(CAMVID_RUNS)/base_0/iter_800.pth $(CAMVID_ABNN) | venv
	$(PYTHON) tools/fit.py swag $(CAMVID_ABNN) $< --work-dir $(@D) \
	  --iterations 48 --every 2 --rank 18 --overwrite

CAMVID_DISTILL := $(PYTHON) tools/distill.py configs/distill_deeplabv3plus_camvid.py \
  $(CAMVID_RUNS)/base_0/iter_800.pth $(CAMVID_RUNS)/abnn_0/members.pth --resume \
  $(if $(AMP),--amp)

$(CAMVID_RUNS)/student/student.pth: $(CAMVID_RUNS)/abnn_0/members.pth
	$(CAMVID_DISTILL) --work-dir $(@D)

$(CAMVID_RUNS)/student_norms/student.pth: $(CAMVID_RUNS)/abnn_0/members.pth
	$(CAMVID_DISTILL) --work-dir $(@D) --design norms --iters 300

# Away from home: a Cityscapes base, its members, and two road-anomaly sets.
# BASE, BACKBONE, AMP and IMAGES are as for camvid; AWAY_SEEDS=0 is one seed.
CITYSCAPES_SMALL ?= data/cityscapes_small
ANOMALY_DEV ?= data/anomaly_dev
AWAY_RUNS ?= work_dirs/away
AWAY_SEEDS ?= 0,1,2
COMMA := ,
export CITYSCAPES_SMALL ANOMALY_DEV AWAY_RUNS AWAY_SEEDS
AWAY_BASE := configs/deeplabv3plus_r50-caffe-d16_1xb4-6k_cityscapes-small-224x448.py
AWAY_ABNN := configs/abnn_deeplabv3plus_cityscapes-small.py
AWAY_TRAINED := $(AWAY_RUNS)/base_0/iter_6000.pth
AWAY_MEMBERS := $(foreach s,$(subst $(COMMA), ,$(AWAY_SEEDS)),$(AWAY_RUNS)/abnn_$(s)/members.pth)

AWAY_FITS := $(foreach f,$(FITTED),$(AWAY_RUNS)/$(f).pth)
AWAY_FIRST := $(firstword $(AWAY_MEMBERS))

away: venv $(AWAY_TRAINED) $(AWAY_MEMBERS) $(AWAY_FITS)
	$(PYTHON) tools/compare.py configs/compare_away.py \
	  --json $(AWAY_RUNS)/comparison.json \
	  $(if $(IMAGES),--images $(IMAGES))

ifdef BASE
$(AWAY_TRAINED): | venv
	mkdir -p $(@D) && ln -sf $(abspath $(BASE)) $@
else
$(AWAY_TRAINED): | venv
	$(PYTHON) tools/train.py $(AWAY_BASE) --resume --work-dir $(@D) \
	  $(if $(AMP),--amp) --cfg-options randomness.seed=0 \
	  $(if $(BACKBONE),model.backbone.init_cfg.checkpoint=$(BACKBONE))
endif

$(AWAY_RUNS)/abnn_%/members.pth: $(AWAY_TRAINED) $(AWAY_ABNN) | venv
	$(PYTHON) tools/train.py $(AWAY_ABNN) --resume --work-dir $(@D) \
	  $(if $(AMP),--amp) --cfg-options randomness.seed=$*0

$(AWAY_RUNS)/laplace/laplace.pth: $(AWAY_TRAINED) | venv
	$(PYTHON) tools/fit.py laplace $(AWAY_BASE) $< --work-dir $(@D) \
	  --structure low_rank --images 400 --draws 1 --val-images 8 --overwrite

$(AWAY_RUNS)/swag/swag.pth: $(AWAY_TRAINED) $(AWAY_ABNN) | venv
	$(PYTHON) tools/fit.py swag $(AWAY_ABNN) $< --work-dir $(@D) \
	  --iterations 48 --every 2 --rank 18 --overwrite

AWAY_DISTILL := $(PYTHON) tools/distill.py \
  configs/distill_deeplabv3plus_cityscapes-small.py $(AWAY_TRAINED) $(AWAY_FIRST) \
  --resume $(if $(AMP),--amp)

$(AWAY_RUNS)/student/student.pth: $(AWAY_FIRST)
	$(AWAY_DISTILL) --work-dir $(@D)

$(AWAY_RUNS)/student_norms/student.pth: $(AWAY_FIRST)
	$(AWAY_DISTILL) --work-dir $(@D) --design norms --iters 300

.DELETE_ON_ERROR:

test: $(INSTALLED)-dev
	$(PYTHON) -m pytest -n 2 --dist loadfile $(ARGS)

test-openmmlab: $(OPENMMLAB)/.abnn-mmseg-installed
	$(OPENMMLAB)/bin/python -m pytest -n 2 --dist loadfile $(ARGS)

lint: $(INSTALLED)-dev
	$(PYTHON) -m ruff check .
	$(PYTHON) -m mypy

# site/index.html opens from disk.
docs: $(INSTALLED)
	$(PIP) -e '.[docs]'
	$(PYTHON) docs/make_troubleshooting.py
	$(PYTHON) -m mkdocs build --quiet

venv: $(INSTALLED)

# An environment of ours gets the tested versions; somebody else's keeps what
# it has and gets what is missing.
$(INSTALLED): setup.py constraints.txt
ifeq ($(ENV),.venv)
	@test -x $(PYTHON) || python3 -m venv .venv
	$(PIP) -c constraints.txt torch==2.13.0
	$(PIP) -c constraints.txt -e '.[onedl,plots]'
else
	@$(PYTHON) -c 'import torch' 2> /dev/null || $(PIP) torch==2.13.0
	@$(PYTHON) -c 'import mmseg' 2> /dev/null || $(PIP) -e '.[onedl]'
	$(PIP) -e '.[plots]'
endif
	@touch $@

# What only tests and checks need.
$(INSTALLED)-dev: $(INSTALLED)
ifeq ($(ENV),.venv)
	$(PIP) -c constraints.txt -e '.[dev,zoo]'
else
	$(PIP) -e '.[dev]'
endif
	@touch $@

# mmcv-lite is mmcv without its compiled module, for which a stub stands in.
$(OPENMMLAB)/.abnn-mmseg-installed: setup.py constraints.txt
	@test -x $(@D)/bin/python || python3 -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check \
	    -c constraints.txt torch==2.13.0
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check \
	    -c constraints.txt mmsegmentation mmengine mmcv-lite mmdet ftfy regex \
	    'setuptools<81' \
	    -e '.[dev]'
	@ln -sf $(CURDIR)/tests/openmmlab/_ext.py $$($(@D)/bin/python -c \
	    'import mmcv; print(mmcv.__path__[0])')
	@touch $@

clean:
	rm -rf .venv $(OPENMMLAB) work_dirs data/muad_sketch site
