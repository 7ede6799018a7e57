.PHONY: install check e2e faults pages docs ci package containers bundle bill-of-materials

install:
	pip install -c constraints.txt torch==2.13.0
	pip install -c constraints.txt -e '.[explain,export,flower,gcfl,metis,metrics,mlflow,parquet,privacy,report,secure,tensorboard,tune,wandb,docs,dev]'
	pre-commit install

check:
	ruff format --check .
	ruff check .
	mypy
	pytest -q -n 2 -m "not e2e and not thorough"

e2e:            ## real Ray, SuperLink, SuperNodes and nginx, and kill -9; all that takes too long for CI
	pytest -n 2 -m "e2e or thorough"

faults:         ## full fault tests: bad replies, mutated messages, crashes, forgeries, malicious clients
	RAMET_FAULTS=full pytest -n 2 -m "not e2e" tests/faults tests/flower/test_wire.py tests/engine \
	  tests/privacy/test_canaries.py tests/privacy/test_budget_ledger.py
	RAMET_FAULTS=full pytest -n 3 --dist loadfile -o junit_family=xunit1 --junitxml=faults.xml \
	  tests/e2e/test_production_kills.py tests/e2e/test_server_kills.py tests/e2e/test_site_kills.py \
	  tests/e2e/test_kill.py tests/e2e/test_secure_kills.py \
	  tests/e2e/test_secure_production_kills.py tests/e2e/test_secure_consortium.py

pages:          ## tables, claims and ledger of the docs, from the kept runs
	python results/pages.py

docs:           ## docs site, in .ci/site
	mkdocs build --strict

ci:
	.ci/run

package:        ## build wheel and sdist, install each without extras and run it
	rm -rf dist && python -m build
	RAMET_DIST=$(PWD)/dist pytest -q -m e2e tests/packaging

containers:     ## build the image, and run a consortium in containers; as root, with podman-compose
	podman build $(BUILD_OPTIONS) -t localhost/ramet .
	RAMET_IMAGE=localhost/ramet pytest -m e2e tests/e2e/test_containers.py

bundle:         ## wheels for machines without internet access, in dist/bundle
	rm -rf dist/bundle && mkdir -p dist/bundle
	pip wheel -q -w dist/bundle -c constraints.txt torch==2.13.0 '.[flower,metrics]'
	cd dist/bundle && sha256sum *.whl > SHA256SUMS

bill-of-materials: ## CycloneDX bill of materials of an installation with all extras
	rm -rf dist/bill dist/tool && python -m venv dist/bill && python -m venv dist/tool
	dist/tool/bin/pip install -q cyclonedx-bom
	dist/bill/bin/pip install -q --no-compile -c constraints.txt torch==2.13.0
	dist/bill/bin/pip install -q --no-compile -c constraints.txt '.[explain,export,flower,gcfl,metis,metrics,mlflow,parquet,privacy,report,secure,tensorboard,tune,wandb]'
	dist/tool/bin/cyclonedx-py environment dist/bill/bin/python --pyproject pyproject.toml --of JSON -o dist/ramet.cdx.json
	rm -rf dist/bill dist/tool
