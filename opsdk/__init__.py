"""opsdk: Kubernetes operators in Python.

The front door. Names are imported when they are first used, so that ``import opsdk`` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opsdk.apimachinery.crd import PrinterColumn, crd_for
    from opsdk.apimachinery.gvk import GroupVersion, GroupVersionKind, GroupVersionResource, ObjectKey
    from opsdk.apimachinery.kinds import Kind, metadata_only, unstructured
    from opsdk.apimachinery.meta import Condition, LabelSelector, ObjectMeta, OwnerReference
    from opsdk.apimachinery.model import Model
    from opsdk.apimachinery.object import Object, ObjectList, PartialObjectMetadata, TypedObject, Unstructured
    from opsdk.apimachinery.quantity import IntOrString, Quantity
    from opsdk.apimachinery.scheme import Scheme, default_scheme
    from opsdk.apimachinery.selectors import FieldSelector, Selector
    from opsdk.apimachinery.time import MicroTime, Time
    from opsdk.builder.controller_builder import ControllerBuilder, Watching
    from opsdk.builder.operator import Operator, OperatorOptions
    from opsdk.cache.cache import Cache, CacheOptions, KindOptions
    from opsdk.client.client import Client
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
    from opsdk.event.request import Request
    from opsdk.manager.manager import Manager, ManagerOptions
    from opsdk.patch import MergeFrom, PatchType, RawPatch
    from opsdk.recorder.recorder import EventRecorder
    from opsdk.rest.config import Config
    from opsdk.rest.load import load_config

_HOMES = {
    "opsdk.apimachinery.crd": ("PrinterColumn", "crd_for"),
    "opsdk.apimachinery.gvk": ("GroupVersion", "GroupVersionKind", "GroupVersionResource", "ObjectKey"),
    "opsdk.apimachinery.kinds": ("Kind", "metadata_only", "unstructured"),
    "opsdk.apimachinery.meta": ("Condition", "LabelSelector", "ObjectMeta", "OwnerReference"),
    "opsdk.apimachinery.model": ("Model",),
    "opsdk.apimachinery.object": ("Object", "ObjectList", "PartialObjectMetadata", "TypedObject", "Unstructured"),
    "opsdk.apimachinery.quantity": ("IntOrString", "Quantity"),
    "opsdk.apimachinery.selectors": ("FieldSelector", "Selector"),
    "opsdk.apimachinery.time": ("MicroTime", "Time"),
    "opsdk.builder.controller_builder": ("ControllerBuilder", "Watching"),
    "opsdk.builder.operator": ("Operator", "OperatorOptions"),
    "opsdk.cache.cache": ("Cache", "CacheOptions", "KindOptions"),
    "opsdk.client.client": ("Client",),
    "opsdk.patch": ("MergeFrom", "PatchType", "RawPatch"),
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
    "opsdk.event.request": ("Request",),
    "opsdk.manager.manager": ("Manager", "ManagerOptions"),
    "opsdk.recorder.recorder": ("EventRecorder",),
    "opsdk.rest.config": ("Config",),
    "opsdk.rest.load": ("load_config",),
    "opsdk.apimachinery.scheme": ("Scheme", "default_scheme"),
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
