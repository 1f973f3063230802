"""``opsdk generate rbac``: the manifests of an operator, as text and as a check of a file."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

from opsdk.cli.__main__ import main

MODULE = """
from opsdk import Operator
from opsdk.api.core.v1 import ConfigMap, Secret
from opsdk.errors import UsageError
from opsdk.rbac.rules import RbacRule, applies

operator = Operator("shop-operator")
empty = Operator("empty")
RULES = [RbacRule("get", Secret, namespaces=["kube-system"])]
number = 3


@operator.reconciler(ConfigMap, rbac=[applies(ConfigMap)])
async def reconcile(config: ConfigMap) -> None: ...


@operator.setup
def more(operator):
    async def watch_secrets(secret: Secret) -> None: ...

    operator.controller_for(Secret).reconciler(watch_secrets).complete()


def make() -> Operator:
    return operator
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module in the current folder."""
    (tmp_path / "shop_operator_module.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "shop_operator_module", raising=False)


def generate(*arguments: str) -> int:
    """Run the command."""
    return main(["generate", "rbac", *arguments])


def documents(capsys: pytest.CaptureFixture[str]) -> dict[str, list[dict[str, object]]]:
    """The printed documents by kind."""
    by_kind: dict[str, list[dict[str, object]]] = {}
    for document in yaml.safe_load_all(capsys.readouterr().out):
        by_kind.setdefault(document["kind"], []).append(document)
    return by_kind


def test_the_setup_functions_count(capsys: pytest.CaptureFixture[str]) -> None:
    """The operator is prepared without a server, so controllers of setup functions are declared too."""
    assert generate("shop_operator_module:operator") == 0
    (role,) = documents(capsys)["ClusterRole"]
    assert role["metadata"] == {"name": "shop-operator"}
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch", "create", "patch"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch"]},
    ]


def test_names_and_flags_of_the_deployment(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Flags are those of the deployment; variables of this shell change nothing."""
    monkeypatch.setenv("OPSDK_METRICS_BIND_ADDRESS", ":8080")
    arguments = ["--name", "shop", "--namespace", "system", "--service-account", "robot", "--create-namespace"]
    assert generate("shop_operator_module:make", *arguments, "--flag", "leader-elect") == 0
    printed = documents(capsys)
    assert [n["metadata"] for n in printed["Namespace"]] == [{"name": "system"}]
    assert [n["metadata"] for n in printed["ServiceAccount"]] == [{"name": "robot", "namespace": "system"}]
    (role,) = printed["Role"]
    assert role["metadata"] == {"name": "shop", "namespace": "system"}
    assert {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "update"],
            "resourceNames": ["shop-operator"]} in role["rules"]  # type: ignore[operator] # fmt: skip


def test_a_list_of_rules_needs_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    """Programs that are not operators declare a list of rules."""
    assert generate("shop_operator_module:RULES") == 1
    assert "pass --name" in capsys.readouterr().err
    assert generate("shop_operator_module:RULES", "--name", "x") == 0
    assert [role["metadata"] for role in documents(capsys)["Role"]] == [{"name": "x", "namespace": "kube-system"}]
    assert generate("shop_operator_module:RULES", "--name", "x", "--flag", "leader-elect") == 1
    assert "require an operator" in capsys.readouterr().err


def test_a_file_is_checked(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Equal bytes pass in silence; a difference is shown, and the status is 1."""
    assert generate("shop_operator_module:operator") == 0
    path = tmp_path / "rbac.yaml"
    path.write_text(capsys.readouterr().out)
    assert generate("shop_operator_module:operator", "--check", str(path)) == 0
    assert capsys.readouterr().out == ""
    path.write_text(path.read_text().replace("- patch\n", ""))
    assert generate("shop_operator_module:operator", "--check", str(path)) == 1
    error = capsys.readouterr().err
    assert "is out of date" in error
    assert "+  - patch" in error
    assert generate("shop_operator_module:operator", "--check", "absent.yaml") == 1
    assert "absent.yaml cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("shop_operator_module:absent", "cannot be loaded, write MODULE:NAME"),
        ("absent_module:operator", "cannot be loaded"),
        ("shop_operator_module", "cannot be loaded"),
        ("shop_operator_module:number", "is not an Operator"),
        ("shop_operator_module:empty", "has nothing to run"),
    ],
)
def test_what_is_no_operator_is_named(reference: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A reference that is not an operator is one line that says why."""
    assert generate(reference) == 1
    assert message in capsys.readouterr().err


def test_two_runs_print_equal_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    """The output depends on the declarations only."""
    generate("shop_operator_module:operator")
    first = capsys.readouterr().out
    generate("shop_operator_module:operator")
    assert capsys.readouterr().out == first
    assert first.startswith("# Generated by opsdk generate rbac")
