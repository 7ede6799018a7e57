.PHONY: install check e2e kills ci

install:
	pip install -c constraints.txt torch==2.13.0
	pip install -c constraints.txt -e '.[flower,gcfl,report,dev]'
	pre-commit install

check:
	ruff format --check .
	ruff check .
	mypy
	pytest -q -n 2 -m "not e2e"

e2e:            ## real Ray, SuperLink and SuperNodes, and kill -9
	pytest -n 2 -m e2e

kills:          ## kill -9 at ten random moments
	RAMET_KILLS=10 pytest -n 2 tests/e2e/test_kill.py

ci:
	.ci/run
