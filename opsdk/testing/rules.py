"""Compares the requests of an operator with the RBAC rules that it declares."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opsdk.builder.operator import Operator
from opsdk.rbac.manifests import RbacNames, manifests, to_yaml
from opsdk.rbac.observed import RuleRecorder
from opsdk.rbac.permissions import RuleSet

__all__ = ["RulesError", "assert_rules", "observed_manifests", "observed_rules"]


class RulesError(AssertionError):
    """The requests of an operator and its declared rules differ."""


@contextmanager
def observed_rules(operator: Operator) -> Iterator[RuleRecorder]:
    """Record the requests of an operator that is started inside the block.

    ::

        with observed_rules(operator) as observed:
            async with running(operator, env) as operator:
                ...
        assert_rules(observed, operator.rules())

    Args:
        operator: an operator that is not started yet.
    """
    recorder = RuleRecorder(operator.implied_rules)
    operator.add_hook(recorder)
    yield recorder


def assert_rules(observed: RuleRecorder, declared: RuleSet, *, unused: bool = False) -> None:
    """Raise `RulesError` for requests that `declared` does not cover; each with the line that sent it.

    Args:
        observed: the recorded requests.
        declared: usually `Operator.rules`, after the start.
        unused: declared permissions that no request used are an error too, except those that opsdk implies, see
            `Operator.implied_rules`.
    """
    problems = [f"not declared: {request}" for request in observed.missing(declared)]
    if unused:
        problems += [f"declared but not used: {permission}" for permission in observed.unused(declared)]
    if problems:
        raise RulesError("\n".join(problems))


def observed_manifests(observed: RuleRecorder, names: RbacNames, declared: RuleSet | None = None) -> str:
    """Return the smallest manifests for the recorded requests as YAML: service account, roles, bindings.

    >>> print(observed_manifests(RuleRecorder(), RbacNames(name="site-operator")))
    apiVersion: v1
    kind: ServiceAccount
    metadata:
      name: site-operator
      namespace: default
    <BLANKLINE>
    """
    return to_yaml(manifests(observed.rules(declared), names))
