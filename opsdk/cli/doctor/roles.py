"""Compares the roles of a service account with the permissions that an operator needs. Pure.

Upstream: k8s.io/kubernetes/pkg/registry/rbac/validation/rule.go (VisitRulesFor; v1.36)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from opsdk.api.apps.v1 import Deployment
from opsdk.api.core.v1 import Container
from opsdk.api.rbac.v1 import ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, Subject
from opsdk.apimachinery.model import to_builtins
from opsdk.builder.flags import FLAGS
from opsdk.cli.doctor.findings import Finding, Level
from opsdk.rbac.permissions import RuleSet

_EVERY_ACCOUNT = ("system:authenticated", "system:serviceaccounts")


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundRole:
    """A role that a binding gives to a service account.

    Attributes:
        name: kind, namespace and name of the role.
        rules: what it grants.
        direct: the binding names the account itself, not a group.
    """

    name: str
    rules: RuleSet
    direct: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRoles:
    """The RBAC objects of a cluster."""

    cluster_roles: Sequence[ClusterRole]
    roles: Sequence[Role]
    cluster_role_bindings: Sequence[ClusterRoleBinding]
    role_bindings: Sequence[RoleBinding]

    def bound_to(self, account: str, namespace: str) -> list[BoundRole]:
        """Return the roles of a service account, also those of its groups."""
        wide = {role.metadata.name: role.rules for role in self.cluster_roles}
        narrow = {(role.metadata.namespace, role.metadata.name): role.rules for role in self.roles}
        roles = []
        bindings: list[ClusterRoleBinding | RoleBinding] = [*self.cluster_role_bindings, *self.role_bindings]
        for binding in bindings:
            where = binding.metadata.namespace if isinstance(binding, RoleBinding) else ""
            ties = [tie for subject in binding.subjects if (tie := _tie(subject, account, namespace, where))]
            if not ties:
                continue
            ref = binding.role_ref
            is_wide = ref.kind == "ClusterRole"
            rules: Iterable[PolicyRule] = wide.get(ref.name, ()) if is_wide else narrow.get((where, ref.name), ())
            roles.append(
                BoundRole(
                    name=f"ClusterRole {ref.name}" if is_wide else f"Role {where}/{ref.name}",
                    rules=RuleSet.from_policy_rules(rules, where),
                    direct="account" in ties,
                )
            )
        return roles


def _tie(subject: Subject, account: str, namespace: str, binding_namespace: str) -> str:
    """Return how a subject stands for a service account: ``account`` or ``group``; empty if it does not."""
    if subject.kind == "ServiceAccount":
        is_account = (subject.namespace or binding_namespace, subject.name) == (namespace, account)
        return "account" if is_account else ""
    if subject.kind == "User":
        return "account" if subject.name == f"system:serviceaccount:{namespace}:{account}" else ""
    groups = (*_EVERY_ACCOUNT, f"system:serviceaccounts:{namespace}")
    return "group" if subject.kind == "Group" and subject.name in groups else ""


def flags_of(container: Container) -> tuple[str, ...]:
    """Return the flags of an operator's container, without dashes: its arguments, then its environment.

    Arguments that are not flags of opsdk are left out.

    >>> flags_of(Container(name="a", args=["--leader-elect", "--own", "--watch-namespaces", "shop"]))
    ('leader-elect', 'watch-namespaces=shop')
    """
    flags = {flag.name: flag for flag in FLAGS}
    values: dict[str, str] = {}
    words = list(container.args)
    for index, word in enumerate(words):
        name, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or name not in flags:
            continue
        following = words[index + 1] if index + 1 < len(words) else "--"
        values[name] = value if equals else "" if following.startswith("--") else following
    for variable in container.env:
        name = next((flag.name for flag in FLAGS if flag.variable == variable.name), "")
        if name and variable.value and name not in values:
            values[name] = variable.value
    return tuple(f"{name}={value}" if value else name for name, value in values.items())


def account_of(deployments: Sequence[Deployment]) -> str:
    """Return the service account of the first Deployment; empty without one."""
    specs = [each.spec.template.spec for each in deployments]
    return next((spec.service_account_name or "default" for spec in specs), "")


def of_roles(
    account: str, bound: Sequence[BoundRole], needed: RuleSet, used: RuleSet, *, recorded: bool
) -> Iterator[Finding]:
    """Compare the roles of a service account with the operator's permissions.

    Args:
        account: namespace and name.
        bound: its roles.
        needed: the declared permissions, and the recorded ones.
        used: granted permissions outside it are reported.
        recorded: `used` comes from a recording, not from the declaration.
    """
    subject = f"ServiceAccount {account}"
    granted = RuleSet(p for role in bound for p in role.rules)
    missing = needed - granted
    for namespace in missing.namespaces:
        role = _role_for(bound, namespace)
        for rule in missing.policy_rules(namespace):
            yield Finding(
                check="permissions",
                level=Level.ERROR,
                subject=subject,
                message=f"cannot {_words(rule)}{_where(namespace)}, which the operator needs",
                advice=f"add to {role}: {_text(rule)}",
            )
    unused = list(_unused(bound, used, subject, recorded=recorded))
    yield from unused
    if not missing and not unused:
        yield Finding(
            check="permissions",
            level=Level.OK,
            subject=subject,
            message=f"has exactly the {len(needed)} permissions it needs",
        )


def _unused(bound: Sequence[BoundRole], used: RuleSet, subject: str, *, recorded: bool) -> Iterator[Finding]:
    """Report what roles grant beyond `used`. Roles of groups are not the operator's."""
    source = "recording" if recorded else "declaration"
    for role in bound:
        excess = role.rules - used if role.direct else RuleSet()
        for namespace in excess.namespaces:
            for rule in excess.policy_rules(namespace):
                part = RuleSet.from_policy_rules([rule], namespace)
                narrower = RuleSet(n for n in used if part.covers(n) and not (role.rules - part).covers(n))
                fix = f"remove from {role.name}: {_text(rule)}"
                if narrower:
                    rules = [one for where in narrower.namespaces for one in narrower.policy_rules(where)]
                    fix = f"replace in {role.name}: {_text(rule)} with {', '.join(map(_text, rules))}"
                yield Finding(
                    check="permissions",
                    level=Level.WARNING,
                    subject=subject,
                    message=f"can {_words(rule)}{_where(namespace)}, "
                    + (f"of which the {source} uses only a part" if narrower else f"which the {source} never uses"),
                    advice=fix,
                )


def _role_for(bound: Sequence[BoundRole], namespace: str) -> str:
    """Return the role of the account that should grant something in a namespace."""
    kind = f"Role {namespace}/" if namespace else "ClusterRole "
    own = [role.name for role in bound if role.direct and role.name.startswith(kind)]
    return own[0] if own else f"a new {kind.rstrip('/ ').replace(' ', ' in namespace ')} with a binding"


def _where(namespace: str) -> str:
    return f" in namespace {namespace}" if namespace else ""


def _words(rule: PolicyRule) -> str:
    if rule.non_resource_urls:
        return f"{', '.join(rule.verbs)} {', '.join(rule.non_resource_urls)}"
    groups = "" if rule.api_groups == [""] else f" of {', '.join(group or 'core' for group in rule.api_groups)}"
    names = f" named {', '.join(rule.resource_names)}" if rule.resource_names else ""
    return f"{', '.join(rule.verbs)} {', '.join(rule.resources)}{groups}{names}"


def _text(rule: PolicyRule) -> str:
    """Return a rule as one line of YAML."""
    return json.dumps(to_builtins(rule))
