from opsdk.apimachinery.crd import PrinterColumn as PrinterColumn
from opsdk.apimachinery.crd import crd_for as crd_for
from opsdk.apimachinery.gvk import GroupVersion as _GroupVersion
from opsdk.apimachinery.gvk import GroupVersionKind as GroupVersionKind
from opsdk.apimachinery.gvk import GroupVersionResource as GroupVersionResource
from opsdk.apimachinery.gvk import ObjectKey as ObjectKey
from opsdk.apimachinery.kinds import Kind as Kind
from opsdk.apimachinery.kinds import metadata_only as _metadata_only
from opsdk.apimachinery.kinds import unstructured_kind as _unstructured_kind
from opsdk.apimachinery.meta import Condition as Condition
from opsdk.apimachinery.meta import LabelSelector as LabelSelector
from opsdk.apimachinery.meta import ObjectMeta as ObjectMeta
from opsdk.apimachinery.meta import OwnerReference as OwnerReference
from opsdk.apimachinery.model import Model as Model
from opsdk.apimachinery.object import Object as Object
from opsdk.apimachinery.object import ObjectList as ObjectList
from opsdk.apimachinery.object import PartialObjectMetadata as PartialObjectMetadata
from opsdk.apimachinery.object import TypedObject as _TypedObject
from opsdk.apimachinery.object import Unstructured as Unstructured
from opsdk.apimachinery.object import deep_copy as _deep_copy
from opsdk.apimachinery.object import to_dict as _to_dict
from opsdk.apimachinery.quantity import Quantity as Quantity
from opsdk.apimachinery.scheme import Scheme as Scheme
from opsdk.apimachinery.selectors import FieldSelector as FieldSelector
from opsdk.apimachinery.selectors import LabelRequirements as LabelRequirements
from opsdk.builder.arguments import OwnsSpec as _OwnsSpec
from opsdk.builder.arguments import WatchSpec as _WatchSpec
from opsdk.builder.arguments import references as references
from opsdk.builder.controller_builder import ControllerBuilder as ControllerBuilder
from opsdk.builder.operator import Operator as Operator
from opsdk.builder.options import OperatorOptions as OperatorOptions
from opsdk.cache.cache import Cache as Cache
from opsdk.cache.options import ByObject as ByObject
from opsdk.cache.options import CacheOptions as CacheOptions
from opsdk.cache.options import strip_managed_fields as _strip_managed_fields
from opsdk.children.ordering import Child as _Child
from opsdk.client.client import Client as Client
from opsdk.client.patch import MergeFrom as MergeFrom
from opsdk.client.recorder.recorder import EventRecorder as EventRecorder
from opsdk.client.scheme import default_scheme as _default_scheme
from opsdk.cluster.cluster import Cluster as Cluster
from opsdk.cluster.options import ClusterOptions as ClusterOptions
from opsdk.controller.blocking_context import BlockingContext as BlockingContext
from opsdk.controller.context import Context as Context
from opsdk.controller.controller import Controller as Controller
from opsdk.controller.options import ControllerOptions as ControllerOptions
from opsdk.controller.reconcile import Reconciler as Reconciler
from opsdk.controller.reconcile import Result as Result
from opsdk.controller.retries import RetryLimit as RetryLimit
from opsdk.errors import AlreadyExistsError as AlreadyExistsError
from opsdk.errors import ApiError as ApiError
from opsdk.errors import ConflictError as ConflictError
from opsdk.errors import ForbiddenError as ForbiddenError
from opsdk.errors import NoMatchError as NoMatchError
from opsdk.errors import NotFoundError as NotFoundError
from opsdk.errors import OpsdkError as OpsdkError
from opsdk.errors import TemporaryError as TemporaryError
from opsdk.errors import TerminalError as TerminalError
from opsdk.errors import TransportError as TransportError
from opsdk.errors import UsageError as UsageError
from opsdk.event.request import Request as Request
from opsdk.manager.manager import Manager as Manager
from opsdk.manager.options import ManagerOptions as ManagerOptions
from opsdk.rest.config import RestConfig as RestConfig
from opsdk.rest.load import load_config as load_config
from opsdk.structured_merge.value import JsonObject as _JsonObject

# Old names, which opsdk.base.moved_names resolves with a warning.
Child = _Child
Config = RestConfig
GroupVersion = _GroupVersion
JsonObject = _JsonObject
OwnsSpec = _OwnsSpec
Selector = LabelRequirements
TypedObject = _TypedObject
WatchSpec = _WatchSpec
deep_copy = _deep_copy
default_scheme = _default_scheme
metadata_only = _metadata_only
referenced = references
strip_managed_fields = _strip_managed_fields
to_tree = _to_dict
unstructured = _unstructured_kind
