"""Several named handlers of one kind on one informer, and lifecycles: create, updated, remove with a finalizer.

It creates no clients and caches: each class takes a cluster. Controllers with one reconciler are in `opsdk.controller`.

The names are imported when they are first used. Type checkers read ``__init__.pyi``.
"""

from opsdk.loading import names_on_first_use

_HOMES = {
    "cluster_scope": (
        "for_cluster",
        "object_in_cluster",
    ),
    "cond": ("Cond",),
    "factory": ("SharedControllerFactory",),
    "generating": (
        "GeneratingHandler",
        "GeneratingOptions",
        "add_generating_handler",
        "generates",
    ),
    "generic_controller": ("GenericController",),
    "handlers": (
        "HandlerTransaction",
        "NamedHandler",
    ),
    "impersonation": ("impersonating",),
    "leader": ("on_leader",),
    "lifecycle": ("LifecycleHandler",),
    "names": ("LifecycleNames",),
    "object_set": (
        "ObjectSet",
        "SetOwner",
        "find_owner",
        "purge_orphan",
    ),
    "need_a_cert": ("add_need_a_cert",),
    "options": (
        "GenericControllerOptions",
        "LASSO",
        "NORMAN",
        "RetryPolicy",
        "SlowingRateLimiter",
    ),
    "orphans": (
        "DrainResult",
        "DrainedFinalizer",
        "drain",
        "drain_all",
    ),
    "related": (
        "TRIGGER_ALL",
        "relate",
    ),
    "set_options": (
        "ObjectSetOptions",
        "SetMode",
        "SetPlan",
    ),
    "status": (
        "StatusHandler",
        "status_handler",
    ),
}

__all__ = [
    "LASSO",
    "NORMAN",
    "TRIGGER_ALL",
    "Cond",
    "DrainResult",
    "DrainedFinalizer",
    "GeneratingHandler",
    "GeneratingOptions",
    "GenericController",
    "GenericControllerOptions",
    "HandlerTransaction",
    "LifecycleHandler",
    "LifecycleNames",
    "NamedHandler",
    "ObjectSet",
    "ObjectSetOptions",
    "RetryPolicy",
    "SetMode",
    "SetOwner",
    "SetPlan",
    "SharedControllerFactory",
    "SlowingRateLimiter",
    "StatusHandler",
    "add_generating_handler",
    "add_need_a_cert",
    "drain",
    "drain_all",
    "find_owner",
    "for_cluster",
    "generates",
    "impersonating",
    "object_in_cluster",
    "on_leader",
    "purge_orphan",
    "relate",
    "status_handler",
]


__getattr__ = names_on_first_use(globals(), _HOMES)


def __dir__() -> list[str]:
    return __all__
