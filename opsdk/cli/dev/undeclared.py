"""Logs requests of an operator that its ``rbac=`` does not declare: a local server allows them, a cluster does not."""

from __future__ import annotations

import logging
from collections.abc import Callable

from opsdk.rbac.observed import RuleRecorder
from opsdk.rbac.permissions import Permission, RuleSet
from opsdk.telemetry.context import current
from opsdk.telemetry.records import Record, Requested, TelemetryHook

log = logging.getLogger("opsdk.dev")

_STATUS = "/status"
_DECLARED_BY = {"get": "reads", "list": "reads", "watch": "reads", "delete": "deletes", "deletecollection": "deletes"}


class UndeclaredRequests(TelemetryHook):
    """Logs what reconcilers send and the declared rules do not cover, with its line; the same advice once.

    Args:
        rules: returns the declared rules of the operator that runs.
    """

    def __init__(self, rules: Callable[[], RuleSet]) -> None:
        self._rules = rules
        self._recorder = RuleRecorder()
        self._logged = set[str]()

    def record(self, record: Record) -> None:
        if not isinstance(record, Requested) or "reconcileID" not in current():
            return
        count_before = len(self._recorder)
        self._recorder.record(record)
        if len(self._recorder) == count_before:
            return
        for request in self._recorder.missing(self._rules()):
            advice = _advice(request.permission)
            if advice not in self._logged:
                self._logged.add(advice)
                log.warning("no rbac= declares %s: a cluster refuses it. Add %s", request, advice)


def _advice(permission: Permission) -> str:
    """Return what to add to a declaration.

    >>> _advice(Permission("patch", "", "configmaps", "a", "default"))
    'applies(...) of opsdk.rbac.rules for configmaps to the reconciler'
    """
    resource = permission.resource.removesuffix(_STATUS)
    name = "patches_status" if resource != permission.resource else _DECLARED_BY.get(permission.verb, "applies")
    return f"{name}(...) of opsdk.rbac.rules for {resource or permission.path} to the reconciler"
