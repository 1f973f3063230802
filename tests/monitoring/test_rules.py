"""The rules and the runbooks of odd operators."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from promtool import PROMTOOL, needs_promtool

from opsdk.apimachinery.yaml_text import to_yaml
from opsdk.errors import UsageError
from opsdk.monitoring.declaration import MonitoredOperator, Objective
from opsdk.monitoring.promql import object_name
from opsdk.monitoring.rules import alerts_of, prometheus_rule, rule_groups
from opsdk.monitoring.runbooks import runbooks

ODD = 'A "quoted"\nname {{ $labels.pod }} \\ `code` \u2028 </script> \ud83d'
MANY = {f"controller-{number}": "Box" for number in range(100)}


def operator(name: str, **fields: object) -> MonitoredOperator:
    """Return an operator with all features."""
    return MonitoredOperator(
        name=name,
        **{"controllers": {name: name}, "webhooks": True, "leader_election": True, "fleet": True, **fields},  # type: ignore[arg-type]
    )


NAMES = ["boxes", ODD, "{{", "}}", "\0", "@", "$controller", "a" * 5000, "-", "\udc80"]


@needs_promtool
@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_prometheus_accepts_the_rules_of_any_name(name: str, tmp_path: Path) -> None:
    """Names are text of others: quotes, braces, newlines and half characters."""
    assert PROMTOOL is not None
    odd = operator(name, job=name, namespace=name, runbooks=name)
    (tmp_path / "rules.yaml").write_text(json.dumps({"groups": rule_groups(odd)}), encoding="utf-8")
    checked = subprocess.run(
        [PROMTOOL, "check", "rules", "rules.yaml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_the_rules_of_any_name_are_yaml(name: str) -> None:
    """The written file has the same rules."""
    rule = prometheus_rule(operator(name))
    rule["spec"]["groups"][0]["rules"] = rule["spec"]["groups"][0]["rules"][-2:]
    assert list(yaml.safe_load_all(to_yaml([rule]))) == [rule]


@given(st.text(min_size=1))
def test_any_name_is_an_object_and_one_code_span(name: str) -> None:
    """The object's name is a name of Kubernetes, also of its Service, and no name ends the code of a runbook."""
    odd = operator(name)
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", odd.object_name)
    assert len(odd.object_name) <= 63 - len("-metrics")
    lines = runbooks(odd)["OpsdkWorkersBusy.md"].splitlines()
    assert all(line.count("`") % 2 == 0 for line in lines if not line.startswith("```"))


@given(st.text(min_size=1), st.text(min_size=1))
def test_different_names_have_different_objects(first: str, second: str) -> None:
    """Two operators do not overwrite each other's rules."""
    assert (object_name(first) == object_name(second)) == (first == second)


def test_many_controllers_have_one_rule_for_each_alert() -> None:
    """Alerts tell controllers apart by their label: 100 controllers have the rules of one."""
    one, many = operator("a", controllers={"box": "Box"}), operator("a", controllers=MANY)
    assert rule_groups(one) == rule_groups(many)
    assert len(runbooks(many)["OpsdkWorkersBusy.md"]) < 4000


def test_an_operator_without_controllers_has_no_alerts_on_them() -> None:
    """An operator with webhooks alone has alerts on its process, requests, informers and webhooks."""
    hooks = MonitoredOperator(name="hooks", webhooks=True)
    names = {alert.name for alert in alerts_of(hooks)}
    assert "OpsdkWebhooksFail" in names
    assert not names & {"OpsdkWorkersBusy", "OpsdkNoLeader", "OpsdkErrorBudgetBurnsFast", "OpsdkClusterNotReady"}
    # A condition that no rule records would silence the alert, or let two fire.
    rules = rule_groups(hooks)[0]["rules"]
    recorded = {rule.get("record") for rule in rules}
    assert set(re.findall(r"opsdk:[\w:]+", " ".join(rule["expr"] for rule in rules))) <= recorded


def test_each_alert_has_a_page_with_all_parts() -> None:
    """A person who is woken up finds what it means and what to do."""
    all_features = operator("boxes")
    pages = runbooks(all_features)
    assert set(pages) == {f"{alert.name}.md" for alert in alerts_of(all_features)}
    for name, text in pages.items():
        titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
        assert titles == [name.removesuffix(".md"), "Meaning", "See more", "Usual causes", "What to do"]


@pytest.mark.parametrize(("seconds", "share"), [(7, 0.99), (30, 1.0), (30, 0.1), (30, 1.5), (float("nan"), 0.99)])
def test_an_objective_that_cannot_be_measured_is_an_error(seconds: float, share: float) -> None:
    """The metric has buckets, and a share of all changes leaves no budget."""
    with pytest.raises(UsageError, match="choose"):
        Objective(seconds=seconds, share=share)
