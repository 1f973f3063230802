"""Installs an operator on the API server of a run, as a deployment would: definitions, webhooks, role, user."""

from __future__ import annotations

import asyncio
from typing import Final

from msgspec.structs import replace

from opsdk.apimachinery.object import Unstructured, to_dict
from opsdk.builder.deployed import field_manager, is_labelled, labelled
from opsdk.builder.operator import Operator
from opsdk.client.client import Client
from opsdk.engine.policies import apply_policies
from opsdk.engine.running_environment import ForkEnvironment
from opsdk.engine.webhooks import CLIENT_CONFIG, apply_configurations, serve_in_process
from opsdk.rbac.manifests import RbacNames, manifests
from opsdk.rbac.permissions import RuleSet
from opsdk.recipes.definitions import apply_definitions
from opsdk.rest.config import RestConfig
from opsdk.structured_merge.value import JsonObject

__all__ = [
    "ADMIN", "add_operator_user", "install_definitions", "named", "stop_operator", "user_of",
]  # fmt: skip

ADMIN: Final = "opsdk-deploy"
"""The program that installs the operator, and makes the user's changes."""
_ACCOUNT: Final = "operator-under-plan"
_STOP_SECONDS: Final = 60.0


def named(config: RestConfig, program: str) -> RestConfig:
    """Return the configuration of a program: the server takes its name as the default field manager."""
    return replace(config, user_agent=f"{program}/opsdk")


def user_of(namespace: str) -> str:
    """Return the user of the operator in a namespace."""
    return f"system:serviceaccount:{namespace}:{_ACCOUNT}"


async def install_definitions(operator: Operator, env: ForkEnvironment, client: Client) -> None:
    """Apply the definitions of an operator; its webhooks are served in this process.

    It elects no leader: a run has one replica, and a snapshot may not have the namespace of the Lease.
    """
    operator.options = replace(operator.options, leader_election=False)
    serve_in_process(operator, env.local_apps)
    definitions = [_as_deployed(definition, env) for definition in operator.definitions(CLIENT_CONFIG)]
    await apply_definitions(client, definitions, field_owner=field_manager(operator.name))


def _as_deployed(definition: JsonObject, env: ForkEnvironment) -> JsonObject:
    """Return a definition as the next deployment applies it: ``opsdk deploy`` keeps its label, other ways have none."""
    stored = env.stored(f"apiextensions.k8s.io/customresourcedefinitions/{definition['metadata']['name']}")
    return labelled(definition) if stored is not None and is_labelled(stored) else definition


async def add_operator_user(
    operator: Operator, env: ForkEnvironment, client: Client, *, namespace: str, rules: RuleSet | None
) -> RestConfig:
    """Apply webhook configurations, policies and the role of an operator. Returns the configuration of its clients.

    Args:
        operator: to install.
        env: where it runs.
        client: of an admin.
        namespace: of the operator.
        rules: its permissions; None for those that it declares.
    """
    owner = field_manager(operator.name)
    await apply_configurations(client, operator, CLIENT_CONFIG, field_owner=owner)
    await apply_policies(client, operator, field_owner=owner)
    names = RbacNames(name=_ACCOUNT, namespace=namespace, create_namespace=namespace != "default")
    rules = rules if rules is not None else operator.rules(namespace=namespace)
    for obj in manifests(rules, names):
        await client.apply(Unstructured.from_tree(to_dict(obj)), field_owner=owner, force=True)
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    user = env.add_user(user_of(namespace), groups=groups)
    return named(replace(user.config, namespace=namespace), operator.name)


async def stop_operator(operator: Operator, running: asyncio.Task[None]) -> str:
    """Stop an operator. Returns why it ended by itself; empty if it did not."""
    if running.done():
        error = None if running.cancelled() else running.exception()
        return f"the operator ended: {error}" if error is not None else "the operator ended by itself"
    operator.manager.stop()
    await asyncio.wait([running], timeout=_STOP_SECONDS)
    running.cancel()
    await asyncio.wait([running])
    return ""
