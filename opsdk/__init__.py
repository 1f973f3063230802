"""opsdk: build Kubernetes operators in Python.

This module holds the public names. A name is imported when it is first used, so ``import opsdk`` loads next to no
other module. Type checkers read ``__init__.pyi``, which imports the same names.
"""

import gc
from importlib import import_module  # noqa: TID251 - the table below has the homes of all public names

_HOMES = {
    "opsdk.apimachinery.crd": ("PrinterColumn", "crd_for"),
    "opsdk.apimachinery.gvk": ("GroupVersionKind", "GroupVersionResource", "ObjectKey"),
    "opsdk.apimachinery.kinds": ("Kind",),
    "opsdk.apimachinery.meta": ("Condition", "LabelSelector", "ObjectMeta", "OwnerReference"),
    "opsdk.apimachinery.model": ("Model",),
    "opsdk.apimachinery.object": (
        "Object",
        "ObjectList",
        "PartialObjectMetadata",
        "Unstructured",
    ),
    "opsdk.apimachinery.quantity": ("Quantity",),
    "opsdk.apimachinery.selectors": ("FieldSelector", "LabelRequirements"),
    "opsdk.builder.arguments": ("references",),
    "opsdk.builder.controller_builder": ("ControllerBuilder",),
    "opsdk.builder.operator": ("Operator",),
    "opsdk.builder.options": ("OperatorOptions",),
    "opsdk.cache.cache": ("Cache",),
    "opsdk.cache.options": ("ByObject", "CacheOptions"),
    "opsdk.client.client": ("Client",),
    "opsdk.client.patch": ("MergeFrom",),
    "opsdk.cluster.cluster": ("Cluster",),
    "opsdk.cluster.options": ("ClusterOptions",),
    "opsdk.controller.blocking_context": ("BlockingContext",),
    "opsdk.controller.context": ("Context",),
    "opsdk.controller.controller": ("Controller",),
    "opsdk.controller.options": ("ControllerOptions",),
    "opsdk.controller.reconcile": ("Reconciler", "Result"),
    "opsdk.controller.retries": ("RetryLimit",),
    "opsdk.errors": (
        "AlreadyExistsError",
        "ApiError",
        "ConflictError",
        "ForbiddenError",
        "NoMatchError",
        "NotFoundError",
        "OpsdkError",
        "TemporaryError",
        "TerminalError",
        "TransportError",
        "UsageError",
    ),
    "opsdk.event.request": ("Request",),
    "opsdk.manager.manager": ("Manager",),
    "opsdk.manager.options": ("ManagerOptions",),
    "opsdk.client.recorder.recorder": ("EventRecorder",),
    "opsdk.rest.config": ("RestConfig",),
    "opsdk.rest.load": ("load_config",),
    "opsdk.apimachinery.scheme": ("Scheme",),
}

__all__ = [
    "AlreadyExistsError",
    "ApiError",
    "BlockingContext",
    "ByObject",
    "Cache",
    "CacheOptions",
    "Client",
    "Cluster",
    "ClusterOptions",
    "Condition",
    "ConflictError",
    "Context",
    "Controller",
    "ControllerBuilder",
    "ControllerOptions",
    "EventRecorder",
    "FieldSelector",
    "ForbiddenError",
    "GroupVersionKind",
    "GroupVersionResource",
    "Kind",
    "LabelRequirements",
    "LabelSelector",
    "Manager",
    "ManagerOptions",
    "MergeFrom",
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
    "PrinterColumn",
    "Quantity",
    "Reconciler",
    "Request",
    "RestConfig",
    "Result",
    "RetryLimit",
    "Scheme",
    "TemporaryError",
    "TerminalError",
    "TransportError",
    "Unstructured",
    "UsageError",
    "crd_for",
    "load_config",
    "references",
]

_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import a public name from the module that defines it; an old name comes with a warning."""
    if name not in _HOME_OF:
        from opsdk.base.moved_names import resolve  # noqa: PLC0415 - start-up time: only an old name needs it

        return resolve(__name__, name)
    # Modules stay, so collections meanwhile find nothing: they took 7 % of an import of `Operator`.
    collects = gc.isenabled()
    gc.disable()
    try:
        value = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
    finally:
        if collects:
            gc.enable()
    return value


def __dir__() -> list[str]:
    return __all__
