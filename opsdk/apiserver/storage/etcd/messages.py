"""The used messages of etcd's v3 API: fields with their numbers and types.

The classes are built from this table at import, so no generated code depends on a version of protobuf's compiler.

Upstream: etcd api/etcdserverpb/rpc.proto and api/mvccpb/kv.proto (v3.6).
"""

from __future__ import annotations

import re
from typing import Any

from opsdk.base.extras import RequiredExtra

with RequiredExtra("etcd", "the storage on etcd"):
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE = "opsdk.etcd"

_MESSAGES = {
    "ResponseHeader": "cluster_id=1:uint64 member_id=2:uint64 revision=3:int64 raft_term=4:uint64",
    "KeyValue": "key=1:bytes create_revision=2:int64 mod_revision=3:int64 version=4:int64 value=5:bytes lease=6:int64",
    "RangeRequest": "key=1:bytes range_end=2:bytes limit=3:int64 revision=4:int64 keys_only=8:bool count_only=9:bool",
    "RangeResponse": "header=1:ResponseHeader kvs=2:KeyValue* more=3:bool count=4:int64",
    "PutRequest": "key=1:bytes value=2:bytes",
    "DeleteRangeRequest": "key=1:bytes range_end=2:bytes",
    "Compare": "result=1:int32 target=2:int32 key=3:bytes version=4:int64 mod_revision=6:int64",
    "RequestOp": "request_range=1:RangeRequest request_put=2:PutRequest request_delete_range=3:DeleteRangeRequest",
    "ResponseOp": "response_range=1:RangeResponse",
    "TxnRequest": "compare=1:Compare* success=2:RequestOp* failure=3:RequestOp*",
    "TxnResponse": "header=1:ResponseHeader succeeded=2:bool responses=3:ResponseOp*",
    "CompactionRequest": "revision=1:int64 physical=2:bool",
    "CompactionResponse": "header=1:ResponseHeader",
    "Event": "type=1:int32 kv=2:KeyValue prev_kv=3:KeyValue",
    "WatchCreateRequest": (
        "key=1:bytes range_end=2:bytes start_revision=3:int64 progress_notify=4:bool prev_kv=6:bool fragment=8:bool"
    ),
    "WatchRequest": "create_request=1:WatchCreateRequest",
    "WatchResponse": (
        "header=1:ResponseHeader watch_id=2:int64 created=3:bool canceled=4:bool compact_revision=5:int64"
        " cancel_reason=6:string fragment=7:bool events=11:Event*"
    ),
    "AuthenticateRequest": "name=1:string password=2:string",
    "AuthenticateResponse": "header=1:ResponseHeader token=2:string",
    "StatusRequest": "",
    "StatusResponse": "header=1:ResponseHeader version=2:string db_size=3:int64 leader=4:uint64 raft_index=5:uint64",
}

COMPARE_EQUAL = 0
"""``Compare.result``."""
COMPARE_VERSION = 0
"""``Compare.target``: the number of writes since the key's creation."""
COMPARE_MOD_REVISION = 2
"""``Compare.target``: the revision of the key's last write; 0 if the key does not exist."""
EVENT_PUT = 0
"""``Event.type``; 1 is a deletion."""

_FIELD = re.compile(r"(?<!\w)(\w++)=(\d++):(\w++)(\*?)")
_SCALARS = {name: getattr(descriptor_pb2.FieldDescriptorProto, f"TYPE_{name.upper()}") for name in (
    "bool", "bytes", "int32", "int64", "string", "uint64",
)}  # fmt: skip


def _classes() -> dict[str, Any]:
    """Return the classes of etcd's messages, made from the table of their fields."""
    field_type = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="opsdk/etcd.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind, repeated in _FIELD.findall(fields):
            label = field_type.LABEL_REPEATED if repeated else field_type.LABEL_OPTIONAL
            entry = message.field.add(name=field, number=int(number), label=label)
            if kind in _SCALARS:
                entry.type = _SCALARS[kind]
            else:
                entry.type, entry.type_name = field_type.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    descriptors = {name: pool.FindMessageTypeByName(f"{_PACKAGE}.{name}") for name in _MESSAGES}
    return {name: message_factory.GetMessageClass(descriptor) for name, descriptor in descriptors.items()}


_BY_NAME = _classes()

RangeRequest = _BY_NAME["RangeRequest"]
RangeResponse = _BY_NAME["RangeResponse"]
PutRequest = _BY_NAME["PutRequest"]
DeleteRangeRequest = _BY_NAME["DeleteRangeRequest"]
Compare = _BY_NAME["Compare"]
RequestOp = _BY_NAME["RequestOp"]
TxnRequest = _BY_NAME["TxnRequest"]
TxnResponse = _BY_NAME["TxnResponse"]
CompactionRequest = _BY_NAME["CompactionRequest"]
CompactionResponse = _BY_NAME["CompactionResponse"]
WatchCreateRequest = _BY_NAME["WatchCreateRequest"]
WatchRequest = _BY_NAME["WatchRequest"]
WatchResponse = _BY_NAME["WatchResponse"]
AuthenticateRequest = _BY_NAME["AuthenticateRequest"]
AuthenticateResponse = _BY_NAME["AuthenticateResponse"]
StatusRequest = _BY_NAME["StatusRequest"]
StatusResponse = _BY_NAME["StatusResponse"]
