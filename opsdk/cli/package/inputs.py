"""What every form of a package is made from, read from the project and its operator."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from opsdk.apimachinery.object import to_tree
from opsdk.builder.operator import Operator
from opsdk.cli.generate.rbac import rules_of
from opsdk.cli.loading import load_operator
from opsdk.cli.package.deployment import FLAGS, Workload, webhook_flags
from opsdk.cli.project import Project, current_project, operator_namespace
from opsdk.rbac.manifests import RbacNames, manifests
from opsdk.rbac.permissions import RuleSet
from opsdk.structured_merge.value import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageInputs:
    """The project's operator and its manifests.

    Attributes:
        project: the project of the current folder.
        operator: prepared without a connection.
        workload: the operator's workload.
        definitions: its CustomResourceDefinitions.
        configurations: of its admission webhooks.
        rules: the permissions of its service account.
        rbac: the service account, roles and bindings that grant `rules`.
    """

    project: Project
    operator: Operator
    workload: Workload
    definitions: list[JsonObject]
    configurations: list[JsonObject]
    rules: RuleSet
    rbac: list[JsonObject]


def package_inputs(*, namespace: str = "", image: str = "") -> PackageInputs:
    """Return the inputs of the project around the current folder.

    Args:
        namespace: of the operator, instead of the one in pyproject.toml.
        image: of its container, instead of the one in pyproject.toml.

    Raises:
        UsageError: there is no project, or its table lacks something.
    """
    project = current_project()
    operator = load_operator("")
    namespace = namespace or operator_namespace(project, operator.name)
    flags = (*FLAGS, *(webhook_flags(operator.name) if operator.has_webhooks else ()))
    rules = rules_of(operator, namespace, flags)
    client_config = None
    if (certificates := operator.options.webhook.certificates) is not None:
        client_config = replace(certificates, namespace=certificates.namespace or namespace).client_config()
    workload = Workload(
        name=operator.name,
        namespace=namespace,
        image=image or project.image,
        package=project.package,
        webhooks=operator.has_webhooks,
        settings=project.container,
    )
    names = RbacNames(name=workload.name, namespace=workload.namespace)
    return PackageInputs(
        project=project,
        operator=operator,
        workload=workload,
        definitions=operator.definitions(client_config),
        configurations=operator.webhook_configurations(client_config),
        rules=rules,
        rbac=[to_tree(obj) for obj in manifests(rules, names)],
    )
