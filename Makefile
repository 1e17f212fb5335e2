# Every target sets up first; once .venv is there that takes no time.
PYTHON := .venv/bin/python
# Test processes at a time. Each holds a sandbox with a warm torch: about 400 MB.
JOBS ?= 2
# How long `make honest` begins gradings.
MINUTES ?= 60

.PHONY: help setup demo samples test lint format bench soak honest steady fuzz mutants judges slurm postgres machine gpu template reports rules picture clean

help: ## what can be made
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | expand -t 12

setup: ## .venv with every pinned package, bubblewrap, and Chromium for the tests of the pages
	@scripts/setup.sh

demo: setup ## grade the reference, the template and a sample submission of each sort; one table
	@$(PYTHON) -m fixtures.demo

samples: setup ## the same of every sample submission, which takes an hour
	@$(PYTHON) -m fixtures.demo --all

test: setup ## all tests
	@$(PYTHON) -m pytest tests -n $(JOBS) --dist worksteal

lint: setup ## ruff and mypy
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy

format: setup ## let ruff rewrite what it can
	@.venv/bin/ruff check --fix .
	@.venv/bin/ruff format .

bench: setup ## measure, and write docs/benchmarks.md; PARTS="batch pages" measures these parts alone
	@$(PYTHON) -m benchmarks $(PARTS)

soak: setup ## 1,000 gradings of 20 submissions, whole classes, a class killed at 20 moments, the rest of the mistakes
	@$(PYTHON) -m pytest tests -m "slow and not gpu"

honest: setup ## grade the unusual but right submissions for MINUTES=60; docs/honest-runs.csv counts how often by now
	@$(PYTHON) -m tests.soak.honest --minutes $(MINUTES) --jobs $(JOBS)

steady: setup ## grade each mistake three times with other hidden data: does it always earn the same?
	@$(PYTHON) -m tests.soak.steady

mutants: setup ## change the worked solutions by machine, grade every change, write docs/mutants.md
	@$(PYTHON) -m fixtures.mutants

fuzz: setup ## 10,000 odd inputs to each of the readers of what students send; a slice of it is in `make test`
	@$(PYTHON) -m pytest tests/fuzz --hypothesis-profile=fuzz -n $(JOBS) --dist worksteal --durations=0

judges: setup ## change what the judges see of the reference, one thing at a time: no check may pass
	@$(PYTHON) -m pytest tests/test_judges.py tests/test_judges_files.py -n $(JOBS)

slurm: setup ## launch files and a class put to a real Slurm (installs Debian's)
	@scripts/slurm.sh
	@$(PYTHON) -m pytest tests -m slurm

postgres: setup ## the gradebook in a real PostgreSQL (installs Debian's postgresql)
	@scripts/postgres.sh
	@$(PYTHON) -m pytest tests -m postgres

machine: setup ## the doctor and the limits of runs in an emulated Debian with systemd (installs QEMU)
	@scripts/machine.sh

gpu: setup ## on a machine with an NVIDIA GPU: the emulated ones held against it, the samples graded on it
	@$(PYTHON) -m pytest tests -m gpu -n $(JOBS) --dist worksteal

template: setup ## cut student_template/ out of reference/
	@$(PYTHON) -m lockstep.template

reports: setup ## measure anew what reference/reports/ holds
	@$(PYTHON) -m fixtures.measure_reports

rules: setup ## write docs/report-rules.md
	@$(PYTHON) -m lockstep.reports.rulebook

picture: setup ## draw docs/class-page.png, the class page of a made-up class
	@$(PYTHON) -m fixtures.class_picture

clean: ## remove what setup and the tests made
	rm -rf .venv build results .pytest_cache .mypy_cache .ruff_cache *.egg-info
