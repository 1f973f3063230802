"""Debug pages of an operator on a bad night, for the screenshot of ``opsdk top`` and for tests."""

from __future__ import annotations

from typing import Any

_CONTROLLERS = ("website", "database", "backup")
_KINDS = {name: f"shop.example.com/v1, Kind={name.capitalize()}" for name in _CONTROLLERS}


def _key(controller: str, name: str, namespace: str = "shop") -> dict[str, Any]:
    return {
        "controller": controller, "cluster": "", "kind": _KINDS[controller], "namespace": namespace, "name": name,
    }  # fmt: skip


def _controller(name: str, ready: int, delayed: int, **values: Any) -> dict[str, Any]:
    row = {
        "controller": name, "cluster": "", "kind": _KINDS[name], "state": "running", "standby": False, "paused": "",
        "ready": ready, "delayed": delayed, "oldest_ready_seconds": 0.0, "retrying": 0, "fair": False, "flows": [],
        "more_flows": 0, "workers": {"active": 0, "limit": 4}, "problems": [], "failing_functions": [], "hot_loops": [],
    }  # fmt: skip
    return {**row, **values}


def _queue(name: str, success: int, error: int, last_error: str = "") -> dict[str, Any]:
    return {
        "controller": name, "ready": 0, "ready_by_priority": {"0": 1}, "in_progress_seconds": [],
        "workers": {"active": 0, "limit": 4}, "added": success, "retried": error,
        "reconciles": {"success": success, "error": error}, "last_error": last_error,
        "seconds_since_last_error": 2.0 if last_error else None,
    }  # fmt: skip


def _informer(name: str, objects: int, size: int, **values: Any) -> dict[str, Any]:
    row = {
        "cluster": "", "name": name, "state": "current", "seconds_since_contact": 1.4, "seconds_without_watch": 0.0,
        "last_error": None, "failing_functions": [], "function_failures": 0, "objects": objects, "size": size,
        "lists": 1, "watches": 3, "events": 5 * objects, "errors": 0, "undecodable": 0, "ready": True,
    }  # fmt: skip
    return {**row, **values}


_REFUSED = "apply deployments.apps shop/checkout: 403 Forbidden: exceeded quota: compute, requested: cpu=4"


def _process() -> dict[str, Any]:
    """The process that runs the operator."""
    return {
        "operator": "shop-operator", "host": "shop-operator-7d9c5", "pid": 1, "opsdk": "0.1.0",
        "python": "3.12.4", "rss_bytes": 412_000_000, "journal": {"size": 1000, "reconciles": 1000},
    }  # fmt: skip


def _leadership() -> dict[str, Any]:
    """A leader since almost nine hours."""
    return {
        "state": "running", "election": True, "leading": True, "leading_seconds": 31_500.0,
        "lease": {
            "name": "shop-operator", "namespace": "shop", "identity": "shop-operator-7d9c5_0d9f",
            "holder": "shop-operator-7d9c5_0d9f", "expires_seconds": 13.2, "lease_duration": 15.0,
        },
    }  # fmt: skip


def _controllers() -> list[dict[str, Any]]:
    """A controller with a long queue, one with a stuck reconcile, and a paused one."""
    return [
        _controller(
            "website", 212, 31, oldest_ready_seconds=84.0, retrying=9, workers={"active": 4, "limit": 4},
            flows=[
                {"priority": 0, "flow": "team-blue", "ready": 180}, {"priority": 0, "flow": "shop", "ready": 20},
                {"priority": -100, "flow": "team-red", "ready": 12},
            ],
        ),
        _controller("database", 0, 3, retrying=1, workers={"active": 1, "limit": 4}),
        _controller("backup", 7, 0, paused="paused until 2026-01-02T06:00:00Z: restore runs"),
    ]  # fmt: skip


def _queues(done: int) -> list[dict[str, Any]]:
    """The counts of the queues, so many reconciles later."""
    return [
        _queue("website", 90_211 + done, 412 + done // 6, _REFUSED),
        _queue("database", 1_204 + done // 8, 3),
        _queue("backup", 88, 0),
    ]


def _running() -> list[dict[str, Any]]:
    """A reconcile that waits for minutes, and three that have just begun."""
    return [
        {
            **_key("database", "orders"), "seconds": 742.0, "attempt": 0, "waits_for": "Future",
            "place": "/app/shop/database.py:118 wait_for_restore",
            "stack": ["/app/shop/database.py:52 reconcile", "/app/shop/database.py:118 wait_for_restore"],
        },
        *(
            {
                **_key("website", f"site-{number}", "team-blue"), "seconds": 3.1 - number, "attempt": 0,
                "waits_for": "Future", "place": "/app/shop/website.py:77 reconcile", "stack": [],
            }
            for number in range(3)
        ),
    ]  # fmt: skip


def _retries() -> list[dict[str, Any]]:
    """An object that the quota refuses, and one that a timeout has hit."""
    return [
        {
            **_key("website", "checkout"), "attempts": 14, "due_seconds": 41.0, "priority": 0,
            "error": _REFUSED, "causes": [f"retry ({_REFUSED})"],
        },
        {
            **_key("website", "landing", "team-red"), "attempts": 2, "due_seconds": 0.02, "priority": 0,
            "error": "TimeoutError()", "causes": ["retry (TimeoutError())"],
        },
    ]  # fmt: skip


def _errors() -> list[dict[str, Any]]:
    """The last errors of three objects; one has recovered."""
    return [
        {
            **_key("website", "checkout"), "seconds_ago": 39.0, "errors": 14, "attempt": 13, "recovered": False,
            "detail": _REFUSED, "reconcile_id": "0",
        },
        {
            **_key("website", "landing", "team-red"), "seconds_ago": 2.0, "errors": 2, "attempt": 1,
            "recovered": False, "detail": "retry in 0.02 s: TimeoutError()", "reconcile_id": "1",
        },
        {
            **_key("database", "orders"), "seconds_ago": 3600.0, "errors": 1, "attempt": 0, "recovered": True,
            "detail": "retry in 0.005 s: ConnectionLostError('reset')", "reconcile_id": "2",
        },
    ]  # fmt: skip


def _slowest() -> list[dict[str, Any]]:
    """The object whose reconciles take longest."""
    return [
        {
            **_key("database", "orders"), "reconciles": 3, "errors": 1, "seconds": 95.2, "max_seconds": 61.0,
            "max_waited": 0.1, "requests": 12, "last_result": "success",
        },
    ]  # fmt: skip


def _informers() -> list[dict[str, Any]]:
    """Two informers that are current, and one that lost its permission."""
    return [
        _informer("websites.shop.example.com", 4_210, 9_100_000),
        _informer("deployments.apps", 4_180, 31_000_000),
        _informer(
            "secrets", 912, 2_400_000, state="stale", ready=False, seconds_without_watch=312.0, errors=40,
            seconds_since_contact=312.0, last_error="watch secrets: 403 Forbidden: cannot watch resource secrets",
        ),
    ]  # fmt: skip


def bad_night(*, later: bool = False) -> dict[str, object]:
    """Return all pages.

    Args:
        later: two seconds later, after some reconciles.
    """
    return {
        "process": _process(),
        "leadership": _leadership(),
        "controllers": _controllers(),
        "queues": _queues(24 if later else 0),
        "running": _running(),
        "retries": _retries(),
        "errors": _errors(),
        "slowest": _slowest(),
        "informers": _informers(),
        "pauses": [{"namespace": "shop", "config_map": "shop-pauses", "data": {"backup": "2026-01-02T06:00:00Z"}}],
    }
