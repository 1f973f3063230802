"""Several named handlers of one kind on one informer, and lifecycles: create, updated, remove with a finalizer.

It creates no clients and caches: each class takes a cluster. Controllers with one reconciler are in `opsdk.controller`.
"""

from opsdk.lifecycle.cond import Cond
from opsdk.lifecycle.errors import HandlersFailedError, HandlerTimeoutError, IgnoreError, WrongObjectError
from opsdk.lifecycle.factory import SharedControllerFactory
from opsdk.lifecycle.generic_controller import GenericController
from opsdk.lifecycle.handlers import HandlerTransaction, NamedHandler
from opsdk.lifecycle.leader import on_leader
from opsdk.lifecycle.lifecycle import LifecycleHandler
from opsdk.lifecycle.names import LifecycleNames
from opsdk.lifecycle.options import LASSO, NORMAN, GenericControllerOptions, RetryPolicy, SlowingRateLimiter
from opsdk.lifecycle.orphans import DrainedFinalizer, DrainResult, drain, drain_all
from opsdk.lifecycle.related import TRIGGER_ALL, relate
from opsdk.lifecycle.status import StatusHandler, status_handler

__all__ = [
    "LASSO",
    "NORMAN",
    "TRIGGER_ALL",
    "Cond",
    "DrainResult",
    "DrainedFinalizer",
    "GenericController",
    "GenericControllerOptions",
    "HandlerTimeoutError",
    "HandlerTransaction",
    "HandlersFailedError",
    "IgnoreError",
    "LifecycleHandler",
    "LifecycleNames",
    "NamedHandler",
    "RetryPolicy",
    "SharedControllerFactory",
    "SlowingRateLimiter",
    "StatusHandler",
    "WrongObjectError",
    "drain",
    "drain_all",
    "on_leader",
    "relate",
    "status_handler",
]
