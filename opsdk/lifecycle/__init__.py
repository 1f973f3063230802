"""Several named handlers of one kind on one informer, and lifecycles: create, updated, remove with a finalizer.

It holds no clients and caches: each object gets a cluster. Controllers with one reconciler are in `opsdk.controller`.

The names are imported when they are first used. Type checkers read ``__init__.pyi``.
"""

from importlib import import_module

_HOMES = {
    "generic_controller": ("GenericController",),
    "handlers": (
        "HandlerTransaction",
        "NamedHandler",
    ),
    "lifecycle": ("LifecycleHandler",),
    "names": ("LifecycleNames",),
    "options": (
        "GenericControllerOptions",
        "LASSO",
        "NORMAN",
        "RetryPolicy",
        "SlowingRateLimiter",
    ),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "LASSO",
    "NORMAN",
    "GenericController",
    "GenericControllerOptions",
    "HandlerTransaction",
    "LifecycleHandler",
    "LifecycleNames",
    "NamedHandler",
    "RetryPolicy",
    "SlowingRateLimiter",
]


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    return value


def __dir__() -> list[str]:
    return __all__
