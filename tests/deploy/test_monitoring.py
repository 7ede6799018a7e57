"""Alerts and dashboard: promtool accepts them, and every metric that they name exists."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ramet.cli.main import app
from ramet.deploy import MONITORING

ROOT = Path(__file__).parents[2]
needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool (Debian: prometheus) is not installed"
)


def promtool(*arguments: str | Path) -> None:
    done = subprocess.run(
        ["promtool", *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def expressions() -> list[str]:
    """The expressions of the dashboard's panels."""
    board = json.loads((MONITORING / "dashboard.json").read_text())
    return [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]


@needs_promtool
def test_alerts_fire_when_they_should_and_only_then() -> None:
    promtool("test", "rules", Path(__file__).with_name("rules_test.yml"))


@needs_promtool
def test_prometheus_accepts_the_files_that_the_command_writes(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["deploy", "monitoring", str(tmp_path / "monitoring")])
    assert result.exit_code == 0, result.output
    promtool("check", "config", tmp_path / "monitoring" / "prometheus.yml")
    assert (tmp_path / "monitoring" / "dashboard.json").exists()


@needs_promtool
def test_prometheus_accepts_every_expression_of_the_dashboard(tmp_path: Path) -> None:
    """As recording rules, because promtool checks expressions in rules only."""
    rules = [
        {"record": f"panel:{number}", "expr": expr} for number, expr in enumerate(expressions())
    ]
    assert len(rules) > 20
    file = tmp_path / "rules.yml"
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))  # JSON is YAML
    promtool("check", "rules", file)


def test_alerts_and_dashboard_name_only_existing_metrics() -> None:
    """tests/deploy/test_watching.py checks that the page lists exactly the existing metrics."""
    existing = set(re.findall(r"\bramet_\w+", (ROOT / "docs" / "monitoring.md").read_text()))
    rules = (MONITORING / "rules.yml").read_text()
    named = set(re.findall(r"\bramet_\w+", " ".join([rules, *expressions()])))
    assert named
    assert named - existing == set()


def test_every_alert_is_tested_and_documented() -> None:
    alerts = set(re.findall(r"alert: (\w+)", (MONITORING / "rules.yml").read_text()))
    tests = Path(__file__).with_name("rules_test.yml").read_text()
    assert alerts == set(re.findall(r"alertname: (\w+)", tests))
    page = (ROOT / "docs" / "monitoring.md").read_text()
    assert alerts == set(re.findall(r"\bRamet[A-Z]\w+", page))
