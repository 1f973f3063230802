"""``opsdk generate monitoring``: the files, their options, and operators of all kinds."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from promtool import PROMTOOL, needs_promtool

from opsdk.cli.__main__ import main

MODULE = """
from opsdk import Operator
from opsdk.api.core.v1 import ConfigMap, Secret

operator = Operator("shop-operator")
hooks = Operator("hooks")
odd = Operator("shop.example")


@operator.reconciler(ConfigMap)
async def reconcile(config: ConfigMap) -> None: ...


@odd.reconciler(Secret, name='the "x" {{ y }}\\n')
async def secrets(secret: Secret) -> None: ...


@operator.setup
def more(operator):
    async def watch_secrets(secret: Secret) -> None: ...

    operator.controller_for(Secret).reconciler(watch_secrets).complete()


@hooks.setup
def nothing(operator):
    pass
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module in the current folder."""
    (tmp_path / "shop_monitoring_module.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "shop_monitoring_module", raising=False)


def generate(name: str, *arguments: str) -> int:
    """Run the command for an operator of the module."""
    return main(["generate", "monitoring", f"shop_monitoring_module:{name}", "--output-dir", "out", *arguments])


def texts() -> dict[str, str]:
    """Return the text of each written file."""
    return {str(path.relative_to("out")): path.read_text() for path in Path("out").rglob("*") if path.is_file()}


def test_each_alert_links_to_its_runbook(capsys: pytest.CaptureFixture[str]) -> None:
    """The rules, the dashboard, and a page for each alert; controllers of setup functions are named."""
    assert generate("operator", "--runbook-url", "https://wiki.example.com/books/", "--namespace", "shop") == 0
    files = texts()
    rule = yaml.safe_load(files["prometheus_rule.yaml"])
    assert rule["metadata"]["namespace"] == "shop"
    (group,) = rule["spec"]["groups"]
    alerts = [one for one in group["rules"] if "alert" in one]
    links = {one["annotations"]["runbook_url"] for one in alerts}
    pages = {name.removeprefix("runbooks/") for name in files if name.startswith("runbooks/")}
    assert links == {f"https://wiki.example.com/books/{page}" for page in pages}
    for one in alerts:
        assert {"summary", "description", "runbook_url"} == set(one["annotations"])
        assert one["labels"]["severity"] in ("critical", "warning")
    assert all('job="shop-operator-metrics",namespace="shop"' in one["expr"] for one in group["rules"])
    assert "`configmap (ConfigMap)`, `secret (Secret)`" in files["runbooks/OpsdkWorkersBusy.md"]
    assert json.loads(files["dashboard.json"])["title"] == "shop-operator (opsdk)"


def test_equal_declarations_give_equal_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    """A second run writes the same, and --check compares without writing."""
    assert generate("operator") == 0
    first = texts()
    assert generate("operator") == 0
    assert texts() == first
    assert generate("operator", "--check") == 0
    assert generate("operator", "--check", "--threshold", "10") == 1


def test_the_rule_file_has_the_spec_of_the_rule(capsys: pytest.CaptureFixture[str]) -> None:
    """--rule-file writes the same groups for Prometheus itself, and no PrometheusRule."""
    assert generate("operator") == 0
    spec = yaml.safe_load(texts()["prometheus_rule.yaml"])["spec"]
    Path("out/prometheus_rule.yaml").unlink()
    assert generate("operator", "--rule-file") == 0
    assert yaml.safe_load(texts()["rules.yaml"]) == spec
    assert "prometheus_rule.yaml" not in texts()
    assert generate("operator", "--rule-file", "--check") == 0


@needs_promtool
@pytest.mark.parametrize("name", ["operator", "hooks", "odd"])
def test_prometheus_accepts_the_rule_file(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Promtool reads the file as it is written."""
    assert PROMTOOL is not None
    assert generate(name, "--rule-file") == 0
    checked = subprocess.run(
        [PROMTOOL, "check", "rules", "out/rules.yaml"], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("path", ["prometheus_rule.yaml", "dashboard.json", "runbooks/OpsdkNoLeader.md"])
def test_edited_files_are_kept(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An edit is recognised in each kind of file, and nothing is written; --force overwrites it."""
    assert generate("operator") == 0
    file = Path("out") / path
    edited = re.sub("[Oo]psdk", "edited", file.read_text())
    file.write_text(edited)
    assert generate("operator", "--objective", "99.9") == 1
    assert "was edited" in capsys.readouterr().err
    assert file.read_text() == edited
    assert generate("operator", "--objective", "99.9", "--force") == 0
    assert file.read_text() != edited


def test_an_operator_without_controllers_has_fewer_files(capsys: pytest.CaptureFixture[str]) -> None:
    """Alerts on controllers need a controller, and alerts on leadership an election."""
    assert generate("hooks", "--flag", "leader-elect=false") == 0
    assert "runbooks/OpsdkOperatorDown.md" in texts()
    assert not {"runbooks/OpsdkWorkersBusy.md", "runbooks/OpsdkNoLeader.md"} & set(texts())


def test_odd_names_are_text(capsys: pytest.CaptureFixture[str]) -> None:
    """The object has a name without dots; the name of a controller stays on its line."""
    assert generate("odd") == 0
    rule = yaml.safe_load(texts()["prometheus_rule.yaml"])
    assert re.fullmatch(r"shop-example-[0-9a-f]{8}", rule["metadata"]["name"])
    assert '`the "x" {{ y }}  (Secret)`' in texts()["runbooks/OpsdkWorkersBusy.md"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--threshold", "7"], "choose one of 0.05"),
        (["--objective", "100"], "choose a share"),
        (["--job", "a\udc80"], "can be printed"),
        (["--flag", "no-such-flag"], "no-such-flag"),
    ],
)
def test_wrong_options_are_errors(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is written, and the message says what to choose."""
    assert generate("operator", *arguments) != 0
    assert message in capsys.readouterr().err
    assert not Path("out").exists()
