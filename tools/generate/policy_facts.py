"""The facts about the bootstrap RBAC policy, and their text form in ``sources/``: a JSON object a line. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable

from opsdk.structured_merge.value import JsonObject

PolicyObject = JsonObject
"""A ClusterRole, ClusterRoleBinding, Role or RoleBinding, as in a manifest."""

_KINDS = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")


def sorted_policy(objects: Iterable[PolicyObject]) -> list[PolicyObject]:
    """The objects by kind, namespace and name."""
    return sorted(objects, key=_order)


def _order(item: PolicyObject) -> tuple[int, str, str]:
    metadata = item["metadata"]
    return _KINDS.index(item["kind"]), metadata.get("namespace", ""), metadata["name"]


def render_policy_facts(objects: Iterable[PolicyObject]) -> str:
    """The text form, with sorted keys."""
    return "".join(f"{json.dumps(item, sort_keys=True)}\n" for item in objects)


def parse_policy_facts(text: str) -> list[PolicyObject]:
    """The objects of a text form."""
    return [json.loads(line) for line in text.splitlines()]
