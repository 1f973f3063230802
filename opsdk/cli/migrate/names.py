"""What the names of kopf are in opsdk. The page "From kopf" has the same table for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["ADVICE", "NAMES", "TYPES"]

_HANDLERS: Final = "kopf_handlers."

RETRY_ERRORS: Final = ("kopf.HandlerRetryError", "kopf.TemporaryError")
"""Their second argument is the delay."""

NAMES: Final[Mapping[str, str]] = {
    # The first two of each have other names since kopf 0.22.
    **dict.fromkeys(
        ("kopf.HandlerFatalError", "kopf.PermanentError", "kopf.HandlerTimeoutError", "kopf.HandlerRetriesError"),
        "opsdk.TerminalError",
    ),
    **dict.fromkeys(RETRY_ERRORS, "opsdk.TemporaryError"),
    "kopf.not_": "(lambda part: lambda *args, **kwargs: not part(*args, **kwargs))",
    **{
        f"kopf.{name}": f"(lambda parts: lambda *args, **kwargs: {test}(part(*args, **kwargs) for part in parts))"
        for name, test in (("all_", "all"), ("any_", "any"), ("none_", "not any"))
    },
    **{
        f"kopf.{name}": _HANDLERS + name
        for name in ("ABSENT", "PRESENT", "Body", "Memo", "Meta", "adopt", "append_owner_reference", "label")
    },
    "kopf.Patch": f"{_HANDLERS}KopfPatch",
    **{f"kopf.ErrorsMode.{mode}": f'"{mode.lower()}"' for mode in ("TEMPORARY", "PERMANENT", "IGNORED")},
    **{f"kopf.{name}": f"{_HANDLERS}post_event" for name in ("event", "info", "warn")},
}
"""Names that handlers use, with their counterparts in the generated module."""

EVENT_TYPES: Final[Mapping[str, str]] = {"kopf.info": "Normal", "kopf.warn": "Warning"}
"""The type of the Events that these functions write."""

TYPES: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            "kopf.Spec",
            "kopf.Status",
            "kopf.Labels",
            "kopf.Annotations",
            "kopf.RawBody",
            "kopf.RawEvent",
            "kopf.BodyEssence",
            "kopf.Headers",
            "kopf.UserInfo",
            "kopf.SSLPeer",
            "kopf.Index",
        ),
        "dict",
    ),
    "kopf.Diff": "tuple",
    "kopf.RawEventType": "str",
    "kopf.Reason": "str",
    "kopf.SyncDaemonStopperChecker": f"{_HANDLERS}BlockingStopped",
    "kopf.AsyncDaemonStopperChecker": f"{_HANDLERS}Stopped",
}
"""Types that only annotations use. Others become ``object``."""

ADVICE: Final[Mapping[str, str]] = {
    "kopf.run": "start the operator with opsdk run FILE, or call operator.run()",
    "kopf.cli.main": "start the operator with opsdk run FILE, or call operator.main()",
    **dict.fromkeys(("kopf.operator", "kopf.spawn_tasks", "kopf.run_tasks"), "call await operator.start(config)"),
    "kopf.EVERYTHING": "name the kinds: write one decorator for each",
    "kopf.lifecycles": "handlers run in the order of the source",
    **dict.fromkeys(
        ("kopf.set_default_lifecycle", "kopf.get_default_lifecycle"), "handlers run in the order of the source"
    ),
    **dict.fromkeys(
        ("kopf.OperatorRegistry", "kopf.get_default_registry", "kopf.set_default_registry"),
        "write one opsdk.Operator for each registry",
    ),
    **dict.fromkeys(
        ("kopf.build_owner_reference", "kopf.remove_owner_reference", "kopf.build_object_reference"),
        "use set_owner_reference and remove_owner_reference of opsdk.recipes",
    ),
    **dict.fromkeys(("kopf.LoginError", "kopf.ConnectionInfo", "kopf.AiohttpSession"), "use opsdk.RestConfig"),
    **dict.fromkeys(
        ("kopf.DaemonStopped", "kopf.DaemonStoppingReason"), "a daemon is cancelled when its object is deleted"
    ),
    **{
        f"kopf.Webhook{name}": "OperatorOptions(webhook=...) has the server: see the page Webhooks"
        for name in (
            *("Server", "K3dServer", "MinikubeServer", "DockerDesktopServer", "NgrokTunnel", "AutoServer"),
            *("AutoTunnel", "ServerProtocol", "Fn", "ClientConfig", "ClientConfigService"),
        )
    },
    "kopf.configure": "use the flags --log-format and --log-level: see the reference of flags",
    "kopf.exception": "call kopf_handlers.post_event(obj, type='Warning', reason=..., message=...)",
    "kopf.execute": "use a request of your own class for each item: see kopf.subhandler on the page From kopf",
    "kopf.register": "use a request of your own class for each item: see kopf.subhandler on the page From kopf",
    "kopf.subhandler": "use a request of your own class for each item: see kopf.subhandler on the page From kopf",
    "kopf.index": "use cache.index_field, or a list with a label selector: see the page Map events",
    "kopf.AdmissionError": "raise opsdk.errors.AdmissionDeniedError in a webhook: see the page Webhooks",
    "kopf.on.login": "not needed: opsdk reads the kubeconfig or the service account",
    **dict.fromkeys(
        (
            "kopf.login_via_client",
            "kopf.login_via_pykube",
            "kopf.login_with_kubeconfig",
            "kopf.login_with_service_account",
        ),
        "delete the handler: opsdk reads the kubeconfig or the service account",
    ),
    "kopf.on.probe": "call operator.manager.add_healthz_check in @operator.setup: see the page Metrics and health",
    "kopf.on.validate": "call operator.webhook_for(Kind).with_validator(...): see the page Webhooks",
    "kopf.on.mutate": "call operator.webhook_for(Kind).with_defaulter(...): see the page Webhooks",
    "kopf.harmonize_naming": "set metadata.name, or metadata.generateName",
    "kopf.adjust_namespace": "set metadata.namespace",
}
"""What to do by hand for names that the command does not migrate."""

SETTINGS_ADVICE: Final[Mapping[str, str]] = {
    "settings.posting": "Events are written only where the program calls post_event or ctx.event",
    "settings.watching": "opsdk resumes watches by itself; timeouts are ListWatchOptions of the cache",
    "settings.networking": "RestConfig has the timeouts of requests",
    "settings.batching": "ControllerOptions(max_concurrent_reconciles=...)",
    "settings.queueing": "ControllerOptions(max_concurrent_reconciles=...)",
    "settings.execution": "handlers run in up to 100 threads; ControllerOptions(max_concurrent_reconciles=...)",
    "settings.peering": "pass --leader-elect: see the page Leader election",
    "settings.admission": "OperatorOptions(webhook=...) has the certificates: see the page Webhooks",
    "settings.scanning": "a controller waits for a kind that does not exist yet",
    "settings.background": "DaemonSpec(stop_timeout=...)",
}
"""The counterparts of kopf's settings, by their beginning."""


def advice_for(name: str) -> str:
    """Return what to do by hand for a name.

    >>> advice_for("kopf.run")
    'start the operator with opsdk run FILE, or call operator.run()'
    """
    return ADVICE.get(name, "opsdk has no counterpart under this name: see the page From kopf")
