"""What every form of a package is made from, read from the project and its operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from opsdk.apimachinery.object import to_dict
from opsdk.builder.operator import Operator
from opsdk.cli.generate.rbac import rules_of
from opsdk.cli.loading import load_operator
from opsdk.cli.package.deployment import Workload
from opsdk.cli.project import Project, current_project, operator_namespace
from opsdk.rbac.manifests import RbacNames, manifests
from opsdk.rbac.permissions import RuleSet
from opsdk.structured_merge.value import JsonObject

WATCHED: Final = "watched-namespace"
"""A namespace that stands for each one that an installation of the chart watches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageInputs:
    """The project's operator and its manifests.

    Attributes:
        project: the project of the current folder.
        operator: prepared without a connection.
        workload: the operator's workload.
        definitions: its CustomResourceDefinitions.
        configurations: of its admission webhooks.
        policies: its admission policies and their bindings.
        rules: the permissions of its service account.
        cluster_rules: its permissions if it watches all namespaces.
        watched_rules: its permissions if it watches the namespace `WATCHED` only.
        rbac: the service account, roles and bindings that grant `rules`.
    """

    project: Project
    operator: Operator
    workload: Workload
    definitions: list[JsonObject]
    configurations: list[JsonObject]
    policies: list[JsonObject]
    rules: RuleSet
    cluster_rules: RuleSet
    watched_rules: RuleSet
    rbac: list[JsonObject]


def package_inputs(*, namespace: str = "", image: str = "") -> PackageInputs:
    """Return the inputs of the project around the current folder.

    Args:
        namespace: of the operator, instead of the one in pyproject.toml.
        image: of its container, instead of the one in pyproject.toml.

    Raises:
        UsageError: the folder has no project, or its table lacks something.
    """
    return inputs_of(current_project(), load_operator(""), namespace=namespace, image=image)


def inputs_of(project: Project, operator: Operator, *, namespace: str = "", image: str = "") -> PackageInputs:
    """Return the inputs of a project and its operator. Arguments and errors are those of `package_inputs`."""
    namespace = namespace or operator_namespace(project, operator.name)
    workload = Workload(
        name=operator.name,
        namespace=namespace,
        image=image or project.image,
        package=project.package,
        webhooks=operator.has_webhooks,
        settings=project.container,
    )
    cluster_rules = _rules(operator, workload, ())
    watched_rules = _rules(operator, workload, (WATCHED,))
    rules = rules_of(operator, namespace, workload.role_flags(project.container.watch_namespaces))
    client_config = None
    if (certificates := operator.options.webhook.certificates) is not None:
        client_config = replace(certificates, namespace=certificates.namespace or namespace).client_config()
    return PackageInputs(
        project=project,
        operator=operator,
        workload=workload,
        definitions=operator.definitions(client_config),
        configurations=operator.webhook_configurations(client_config),
        policies=operator.admission_policies(),
        rules=rules,
        cluster_rules=cluster_rules,
        watched_rules=watched_rules,
        rbac=role_objects(workload, rules),
    )


def role_objects(workload: Workload, rules: RuleSet) -> list[JsonObject]:
    """Return the service account, and the roles and bindings that grant it `rules`."""
    names = RbacNames(name=workload.name, namespace=workload.namespace)
    return [to_dict(obj) for obj in manifests(rules, names)]


def _rules(operator: Operator, workload: Workload, watch_namespaces: Sequence[str]) -> RuleSet:
    """Return the permissions for other namespaces than those of the project. The options stay as they are."""
    options = operator.options
    try:
        return rules_of(operator, workload.namespace, workload.role_flags(watch_namespaces))
    finally:
        operator.options = options
