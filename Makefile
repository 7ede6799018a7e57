.PHONY: install check e2e faults docs ci

install:
	pip install -c constraints.txt torch==2.13.0
	pip install -c constraints.txt -e '.[flower,gcfl,metrics,mlflow,parquet,report,tensorboard,wandb,docs,dev]'
	pre-commit install

check:
	ruff format --check .
	ruff check .
	mypy
	pytest -q -n 2 -m "not e2e"

e2e:            ## real Ray, SuperLink, SuperNodes and nginx, and kill -9
	pytest -n 2 -m e2e

faults:         ## the full counts of bad replies, mutated messages, crashes, forgeries and malice
	RAMET_FAULTS=full pytest -n 2 -m "not e2e" tests/faults tests/flower/test_wire.py tests/engine
	RAMET_FAULTS=full pytest -n 3 --dist loadfile -o junit_family=xunit1 --junitxml=faults.xml \
	  tests/e2e/test_production_kills.py tests/e2e/test_server_kills.py tests/e2e/test_site_kills.py

docs:           ## the site, in .ci/site
	mkdocs build --strict

ci:
	.ci/run
