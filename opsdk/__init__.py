"""opsdk: Kubernetes operators in Python.

The front door. Names are imported when they are first used, so that ``import opsdk`` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opsdk.api.crd import PrinterColumn, crd_for
    from opsdk.api.gvk import GroupVersion, GroupVersionKind, GroupVersionResource, ObjectKey
    from opsdk.api.kinds import Kind, metadata_only, unstructured
    from opsdk.api.meta import Condition, LabelSelector, ObjectMeta, OwnerReference
    from opsdk.api.model import Model
    from opsdk.api.object import Object, ObjectList, PartialObjectMetadata, TypedObject, Unstructured
    from opsdk.api.quantity import IntOrString, Quantity
    from opsdk.api.selectors import FieldSelector, Selector
    from opsdk.api.time import MicroTime, Time
    from opsdk.builder.controller_builder import ControllerBuilder, Watching
    from opsdk.builder.operator import Operator, OperatorOptions
    from opsdk.cache.cache import Cache, CacheOptions, KindOptions
    from opsdk.client.client import Client
    from opsdk.client.patch import MergeFrom, PatchType, RawPatch
    from opsdk.cluster.cluster import Cluster, ClusterOptions
    from opsdk.controller.controller import Controller, ControllerOptions
    from opsdk.controller.reconcile import Reconciler, Result
    from opsdk.errors import (
        AlreadyExistsError,
        ApiError,
        ConflictError,
        ForbiddenError,
        NoMatchError,
        NotFoundError,
        OpsdkError,
        TerminalError,
        TransportError,
        UsageError,
    )
    from opsdk.flow.request import Request
    from opsdk.manager.manager import Manager, ManagerOptions
    from opsdk.recorder.recorder import EventRecorder
    from opsdk.rest.config import Config
    from opsdk.rest.load import load_config
    from opsdk.scheme.registry import Scheme, default_scheme

_HOMES = {
    "opsdk.api.crd": ("PrinterColumn", "crd_for"),
    "opsdk.api.gvk": ("GroupVersion", "GroupVersionKind", "GroupVersionResource", "ObjectKey"),
    "opsdk.api.kinds": ("Kind", "metadata_only", "unstructured"),
    "opsdk.api.meta": ("Condition", "LabelSelector", "ObjectMeta", "OwnerReference"),
    "opsdk.api.model": ("Model",),
    "opsdk.api.object": ("Object", "ObjectList", "PartialObjectMetadata", "TypedObject", "Unstructured"),
    "opsdk.api.quantity": ("IntOrString", "Quantity"),
    "opsdk.api.selectors": ("FieldSelector", "Selector"),
    "opsdk.api.time": ("MicroTime", "Time"),
    "opsdk.builder.controller_builder": ("ControllerBuilder", "Watching"),
    "opsdk.builder.operator": ("Operator", "OperatorOptions"),
    "opsdk.cache.cache": ("Cache", "CacheOptions", "KindOptions"),
    "opsdk.client.client": ("Client",),
    "opsdk.client.patch": ("MergeFrom", "PatchType", "RawPatch"),
    "opsdk.cluster.cluster": ("Cluster", "ClusterOptions"),
    "opsdk.controller.controller": ("Controller", "ControllerOptions"),
    "opsdk.controller.reconcile": ("Reconciler", "Result"),
    "opsdk.errors": (
        "AlreadyExistsError",
        "ApiError",
        "ConflictError",
        "ForbiddenError",
        "NoMatchError",
        "NotFoundError",
        "OpsdkError",
        "TerminalError",
        "TransportError",
        "UsageError",
    ),
    "opsdk.flow.request": ("Request",),
    "opsdk.manager.manager": ("Manager", "ManagerOptions"),
    "opsdk.recorder.recorder": ("EventRecorder",),
    "opsdk.rest.config": ("Config",),
    "opsdk.rest.load": ("load_config",),
    "opsdk.scheme.registry": ("Scheme", "default_scheme"),
}

__all__ = [
    "AlreadyExistsError",
    "ApiError",
    "Cache",
    "CacheOptions",
    "Client",
    "Cluster",
    "ClusterOptions",
    "Condition",
    "Config",
    "ConflictError",
    "Controller",
    "ControllerBuilder",
    "ControllerOptions",
    "EventRecorder",
    "FieldSelector",
    "ForbiddenError",
    "GroupVersion",
    "GroupVersionKind",
    "GroupVersionResource",
    "IntOrString",
    "Kind",
    "KindOptions",
    "LabelSelector",
    "Manager",
    "ManagerOptions",
    "MergeFrom",
    "MicroTime",
    "Model",
    "NoMatchError",
    "NotFoundError",
    "Object",
    "ObjectKey",
    "ObjectList",
    "ObjectMeta",
    "Operator",
    "OperatorOptions",
    "OpsdkError",
    "OwnerReference",
    "PartialObjectMetadata",
    "PatchType",
    "PrinterColumn",
    "Quantity",
    "RawPatch",
    "Reconciler",
    "Request",
    "Result",
    "Scheme",
    "Selector",
    "TerminalError",
    "Time",
    "TransportError",
    "TypedObject",
    "Unstructured",
    "UsageError",
    "Watching",
    "crd_for",
    "default_scheme",
    "load_config",
    "metadata_only",
    "unstructured",
]

_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name from its home."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'opsdk' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return __all__
