"""The report of what an operator caches."""

from __future__ import annotations

import asyncio
import logging

import pytest

import envtest
from opsdk import ByObject, CacheOptions, ClusterOptions, LabelRequirements, ObjectMeta, Operator, OperatorOptions
from opsdk.api.core.v1 import ConfigMap, Secret
from opsdk.apimachinery.kinds import metadata_only
from opsdk.builder.flags import parse_flags
from opsdk.errors import UsageError
from opsdk.rbac.manifests import RbacNames, manifests
from opsdk.rbac.permissions import Permission
from opsdk.testing.running import running


async def report(operator: Operator, caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the messages about the cache of an operator that reconciles some ConfigMaps."""
    with caplog.at_level(logging.INFO, logger="opsdk.builder.cache_report"):
        async with envtest.Environment() as env, running(operator, env):
            await asyncio.sleep(10)
    return [record.getMessage() for record in caplog.records if record.name == "opsdk.builder.cache_report"]


def make_operator(kind: type[object], options: CacheOptions) -> Operator:
    """Return an operator that caches a kind."""
    operator = Operator("copier", OperatorOptions(cluster=ClusterOptions(cache=options)))

    @operator.reconciler(ConfigMap, owns=[kind])
    async def reconcile(config: ConfigMap) -> None: ...

    return operator


async def test_the_table_has_scope_and_size_of_each_informer(caplog: pytest.LogCaptureFixture) -> None:
    """One line for each informer: resource, namespace and selectors, objects, bytes, form."""
    by_kind = {ConfigMap: ByObject(namespaces=["default"], label_selector=LabelRequirements.parse("app=shop"))}
    (table,) = await report(make_operator(metadata_only(Secret), CacheOptions(by_kind=by_kind)), caplog)  # type: ignore[arg-type]
    head, _, *rows = table.splitlines()
    assert head.startswith("the cache holds:")
    assert [row.split()[0] for row in rows] == ["configmaps", "secrets"]
    assert "default" in rows[0]
    assert "app=shop" in rows[0]
    assert rows[0].endswith("objects")
    assert rows[1].endswith("metadata")


@pytest.mark.parametrize(
    ("options", "warns"),
    [
        (CacheOptions(), True),
        (CacheOptions(namespaces=["default"]), False),
        (CacheOptions(by_kind={Secret: ByObject(label_selector=LabelRequirements.parse("app=shop"))}), False),
    ],
)
async def test_all_secrets_of_the_cluster_are_a_warning(
    options: CacheOptions, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Whole Secrets of all namespaces without a selector take memory, and are passwords in memory."""
    messages = await report(make_operator(Secret, options), caplog)
    assert any("all Secrets of the cluster" in message for message in messages) is warns


async def test_a_flag_restricts_the_cache_and_the_rules() -> None:
    """With --watch-namespaces the rules are Roles of these namespaces; an invalid name is refused."""
    operator = make_operator(Secret, CacheOptions())
    arguments, _ = operator_options(operator, "--watch-namespaces", "shop, billing")
    assert arguments.cluster.cache.namespaces == ("shop", "billing")
    operator.options = arguments
    namespaces = {permission.namespace for permission in operator.rules() if permission.resource == "secrets"}
    assert namespaces == {"shop", "billing"}
    with pytest.raises(SystemExit):
        operator_options(operator, "--watch-namespaces", "Shop")


def operator_options(operator: Operator, *arguments: str) -> tuple[OperatorOptions, object]:
    """Parse flags."""
    return parse_flags(operator.name, operator.options, arguments, {})


async def test_objects_outside_of_the_namespaces_are_not_seen() -> None:
    """The informers list the named namespaces only."""
    names: list[str] = []
    operator = Operator("copier")
    operator.options, _ = operator_options(operator, "--watch-namespaces", "default")

    @operator.reconciler(ConfigMap)
    async def reconcile(config: ConfigMap) -> None:
        names.append(f"{config.metadata.namespace}/{config.metadata.name}")

    async with envtest.Environment() as env, running(operator, env):
        for namespace in ("default", "kube-public"):
            meta = ObjectMeta(name="mine", namespace=namespace)
            await operator.cluster.uncached.create(ConfigMap(metadata=meta))
        await asyncio.sleep(5)
    assert "default/mine" in names
    assert not any(name.startswith("kube-public") for name in names)


def test_selected_namespaces_get_a_cluster_role_without_a_binding() -> None:
    """With --watch-namespace-selector, the RoleBindings of each namespace grant the permissions there."""
    operator = make_operator(Secret, CacheOptions())
    arguments, _ = operator_options(operator, "--watch-namespace-selector", "env=prod")
    operator.options = arguments
    rules = operator.rules()
    assert rules.covers(Permission("list", "", "namespaces"))
    assert rules.covers(Permission("list", "", "configmaps", namespace="any"))
    assert not rules.covers(Permission("list", "", "configmaps"))
    assert [f"{obj.kind} {obj.metadata.name}" for obj in manifests(rules, RbacNames(name="shop"))] == [
        "ServiceAccount shop",
        "ClusterRole shop",
        "ClusterRoleBinding shop",
        "ClusterRole shop-selected-namespaces",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--watch-namespace-selector", "env,,"], "found ',', expected a label key"),
        (["--watch-namespace-selector", ""], "leave it out for all namespaces"),
        (["--watch-namespace-selector", "env=prod", "--watch-namespaces", "a"], "are mutually exclusive"),
    ],
)
def test_wrong_selectors_of_namespaces_are_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A text that does not parse ends the program; an empty selector and both flags are usage errors."""
    with pytest.raises((SystemExit, UsageError)) as caught:
        operator_options(make_operator(Secret, CacheOptions()), *arguments)
    assert message in capsys.readouterr().err + str(caught.value)
