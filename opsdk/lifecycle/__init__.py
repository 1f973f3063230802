"""Several named handlers of one kind on one informer, and lifecycles: create, updated, remove with a finalizer.

It creates no clients and caches: each class takes a cluster. Controllers with one reconciler are in `opsdk.controller`.
"""

from opsdk.children.set_identity import SetOwner
from opsdk.lifecycle.cluster_scope import for_cluster, object_in_cluster
from opsdk.lifecycle.cond import Cond
from opsdk.lifecycle.errors import HandlersFailedError, HandlerTimeoutError, IgnoreError, WrongObjectError
from opsdk.lifecycle.factory import SharedControllerFactory
from opsdk.lifecycle.generating import GeneratingHandler, GeneratingOptions, add_generating_handler, generates
from opsdk.lifecycle.generic_controller import GenericController
from opsdk.lifecycle.handlers import HandlerTransaction, NamedHandler
from opsdk.lifecycle.impersonation import impersonating
from opsdk.lifecycle.leader import on_leader
from opsdk.lifecycle.lifecycle import LifecycleHandler
from opsdk.lifecycle.names import LifecycleNames
from opsdk.lifecycle.need_a_cert import add_need_a_cert
from opsdk.lifecycle.object_set import ObjectSet, find_owner, purge_orphan
from opsdk.lifecycle.options import LASSO, NORMAN, GenericControllerOptions, RetryPolicy, SlowingRateLimiter
from opsdk.lifecycle.orphans import DrainedFinalizer, DrainResult, drain, drain_all
from opsdk.lifecycle.related import TRIGGER_ALL, relate
from opsdk.lifecycle.set_options import ObjectSetOptions, SetMode, SetPlan
from opsdk.lifecycle.status import StatusHandler, status_handler

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
    "HandlerTimeoutError",
    "HandlerTransaction",
    "HandlersFailedError",
    "IgnoreError",
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
    "WrongObjectError",
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
