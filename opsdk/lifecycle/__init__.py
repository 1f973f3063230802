"""Several named handlers of one kind on one informer, and lifecycles: create, updated, remove with a finalizer.

It holds no clients and caches: each object gets a cluster. Controllers with one reconciler are in `opsdk.controller`.

The names are imported when they are first used. Type checkers read ``__init__.pyi``.
"""

from importlib import import_module

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
    "leader": ("on_leader",),
    "lifecycle": ("LifecycleHandler",),
    "names": ("LifecycleNames",),
    "object_set": (
        "ObjectSet",
        "SetOwner",
        "find_owner",
        "purge_orphan",
    ),
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
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

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
    "drain",
    "drain_all",
    "find_owner",
    "for_cluster",
    "generates",
    "object_in_cluster",
    "on_leader",
    "purge_orphan",
    "relate",
    "status_handler",
]


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    return value


def __dir__() -> list[str]:
    return __all__
