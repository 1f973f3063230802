"""Snapshots of a cluster: the objects that an operator can see, as values, and the file that holds them. Pure.

The file has one JSON document a line, so that ``zcat FILE | jq`` reads it: a header, the objects, and a last line with
the kinds, what could not be read, and a digest of all lines before. A file that was cut off lacks the last line; one
that was changed has another digest.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final, TypeVar

import msgspec

from opsdk.apimachinery.kinds import Kind, KindLike, kind_of
from opsdk.apimachinery.object import AnyObject, convert
from opsdk.apimachinery.tree_names import subject_of_tree
from opsdk.errors import OpsdkError
from opsdk.structured_merge.tree_pool import TreePool
from opsdk.structured_merge.value import JSON_ERRORS, JsonObject

__all__ = ["ClusterSnapshot", "SnapshotError", "SnapshotKind", "Unseen", "read_snapshot", "write_snapshot"]

T = TypeVar("T", bound=AnyObject)

FORMAT: Final = 1
"""The version of the file format that this version writes. It reads this one and older ones."""
_NAME: Final = "opsdk.dev/snapshot"
_MAX_BYTES: Final = 4 << 30
"""Bytes that a compressed file may have inside: a small file must not fill the memory."""
_MAX_LINE: Final = 64 << 20
"""Bytes of one object. etcd's limit is 1.5 MiB."""
_GZIP_MAGIC: Final = b"\x1f\x8b"


class SnapshotError(OpsdkError):
    """A snapshot file cannot be read: another format, cut off, or changed after it was written."""


class SnapshotKind(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A kind of a snapshot.

    Attributes:
        group: the API group; empty for the core group.
        version: the version in which the objects were read.
        kind: of the objects.
        plural: the resource.
        namespaced: whether the objects are in namespaces.
        count: number of objects.
        resource_version: of the list; it differs from the snapshot's if the server could not read at that one.
    """

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    count: int = 0
    resource_version: str = ""

    @property
    def resource(self) -> str:
        """The resource with its group, as kubectl takes it: ``deployments.apps``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def bucket(self) -> str:
        """Where a storage has the objects: ``apps/deployments``, or ``core/pods``."""
        return f"{self.group or 'core'}/{self.plural}"

    @property
    def api_version(self) -> str:
        """Group and version, as objects have them."""
        return f"{self.group}/{self.version}" if self.group else self.version


class Unseen(msgspec.Struct, frozen=True, kw_only=True):
    """Something that could not be read, and why. What depends on it cannot be promised.

    Attributes:
        what: the resource, the group version or the webhook, such as ``deployments.apps`` or ``metrics.k8s.io/v1``.
        reason: such as the server's answer.
        kind: of the objects; empty for anything else than a resource.
        besides: the namespaces whose objects of the resource were read.
    """

    what: str
    reason: str
    kind: str = ""
    besides: tuple[str, ...] = ()

    def __str__(self) -> str:
        besides = f" outside of {', '.join(self.besides)}" if self.besides else ""
        return f"{self.what}{besides}: {self.reason}"


class ClusterSnapshot(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The objects of a cluster, with uid, resourceVersion, managedFields, status and times.

    Attributes:
        taken_at: when it was taken, as an RFC 3339 timestamp in UTC.
        server_version: of the API server, such as ``v1.36.2``.
        resource_version: at which the objects were read, as far as the server allows it.
        secret_values: whether it has the values of Secrets; otherwise it has digests in their place.
        kinds: that were read.
        unseen: what could not be read.
        left_out: resources of the cluster that were not read, because the operator does not use them.
        objects: of all kinds, in the order of `kinds`, namespaces and names.
    """

    taken_at: str
    server_version: str = ""
    resource_version: str = ""
    secret_values: bool = False
    kinds: Sequence[SnapshotKind] = ()
    unseen: Sequence[Unseen] = ()
    left_out: Sequence[str] = ()
    objects: Sequence[JsonObject] = ()

    def __repr__(self) -> str:
        return f"<ClusterSnapshot of {len(self.objects)} objects at {self.taken_at}>"

    def objects_of(self, kind: KindLike[T]) -> list[T]:
        """Return the objects of a kind, in the version of that kind: those in another version are left out.

        Raises:
            SnapshotError: an object does not have the shape of the class.
        """
        target = kind_of(kind)
        trees = (
            tree for tree in self.objects if (tree["apiVersion"], tree["kind"]) == (target.api_version, target.name)
        )
        return [_as_object(tree, target) for tree in trees]


def _as_object(tree: JsonObject, kind: Kind[T]) -> T:
    try:
        return convert(tree, kind.representation)
    except msgspec.ValidationError as error:
        raise SnapshotError(
            f"{subject_of_tree(tree)} does not fit the class {kind.representation.__name__}: {error}"
        ) from error


class _Header(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    format: str = ""
    format_version: int = 0
    taken_at: str = ""
    server_version: str = ""
    resource_version: str = ""
    secret_values: bool = False


class _End(msgspec.Struct, frozen=True, kw_only=True):
    kinds: Sequence[SnapshotKind]
    unseen: Sequence[Unseen]
    objects: int
    sha256: str
    left_out: Sequence[str] = ()


class _LastLine(msgspec.Struct, frozen=True):
    end: _End


# ------------------------------------------------------------------ writing
def write_snapshot(snapshot: ClusterSnapshot, *, compress: bool = True) -> bytes:
    """Return the bytes of a snapshot's file. Equal snapshots have equal bytes.

    Args:
        snapshot: to write.
        compress: with gzip; `read_snapshot` reads both.
    """
    lines = b"".join(_lines(snapshot))
    # Without a time and a name in its header, gzip gives the same bytes each time.
    return gzip.compress(lines, compresslevel=6, mtime=0) if compress else lines


def _lines(snapshot: ClusterSnapshot) -> Iterator[bytes]:
    header = _Header(
        format=_NAME,
        format_version=FORMAT,
        taken_at=snapshot.taken_at,
        server_version=snapshot.server_version,
        resource_version=snapshot.resource_version,
        secret_values=snapshot.secret_values,
    )
    digest = hashlib.sha256()
    for value in (header, *snapshot.objects):
        line = msgspec.json.encode(value) + b"\n"
        digest.update(line)
        yield line
    end = _End(
        kinds=snapshot.kinds,
        unseen=snapshot.unseen,
        objects=len(snapshot.objects),
        sha256=digest.hexdigest(),
        left_out=snapshot.left_out,
    )
    yield msgspec.json.encode(_LastLine(end)) + b"\n"


# ------------------------------------------------------------------ reading
def read_snapshot(data: bytes, *, edited: bool = False) -> ClusterSnapshot:
    """Return the snapshot in the bytes of a file.

    Args:
        data: of the file, compressed or not.
        edited: accept objects that were changed by hand, for tests. A file that was cut off is still an error.

    Raises:
        SnapshotError: it is not a snapshot, has a later format, was cut off, or was changed.
    """
    lines = _lines_of(data)
    first = next(lines, b"")
    header = _header(first)
    digest = hashlib.sha256(first)
    objects: list[JsonObject] = []
    pool = TreePool()
    last: _End | None = None
    for number, line in enumerate(lines, 2):
        if last is not None:
            raise SnapshotError(f"line {number} follows the last line of the snapshot: take the snapshot again")
        if line.startswith(b'{"end":'):
            last = _end(line, number)
            continue
        digest.update(line)
        objects.append(_object(line, number, pool))
    if last is None:
        raise SnapshotError(
            f"the snapshot is cut off after {len(objects)} objects: its last line is missing. Take it again"
        )
    if not edited and (last.objects != len(objects) or last.sha256 != digest.hexdigest()):
        raise SnapshotError(
            f"the snapshot was changed after it was written: it has {len(objects)} objects of {last.objects}, and "
            "another digest. Take it again; for a test, pass edited=True"
        )
    return ClusterSnapshot(
        taken_at=header.taken_at,
        server_version=header.server_version,
        resource_version=header.resource_version,
        secret_values=header.secret_values,
        kinds=tuple(last.kinds),
        unseen=tuple(last.unseen),
        left_out=tuple(last.left_out),
        objects=objects,
    )


def _lines_of(data: bytes) -> Iterator[bytes]:
    """Yield the whole lines of a file. They are inflated one by one, so that the limits hold before memory is used."""
    size = 0
    line = b""
    # A compressed file that was cut off has no end mark. Its missing last line is the better message.
    with _opened(data) as file, suppress(EOFError):
        try:
            while (line := file.readline(_MAX_LINE)).endswith(b"\n"):
                size += len(line)
                if size > _MAX_BYTES:
                    raise SnapshotError(f"the snapshot has more than {_MAX_BYTES >> 30} GiB: it is not read")
                yield line
        except (OSError, zlib.error) as error:
            raise SnapshotError(f"the snapshot is damaged: {error}. Take it again") from error
    if len(line) == _MAX_LINE:
        raise SnapshotError(f"an object of the snapshot has more than {_MAX_LINE >> 20} MiB: it is not read")


def _opened(data: bytes) -> io.BufferedIOBase:
    return gzip.GzipFile(fileobj=io.BytesIO(data)) if data.startswith(_GZIP_MAGIC) else io.BytesIO(data)


def _end(line: bytes, number: int) -> _End:
    try:
        return msgspec.json.decode(line, type=_LastLine).end
    except JSON_ERRORS as error:
        raise SnapshotError(f"line {number} of the snapshot is not valid: {error}. Take it again") from error


def _header(line: bytes) -> _Header:
    try:
        header = msgspec.json.decode(line, type=_Header)
    except JSON_ERRORS as error:
        raise SnapshotError("this is not a snapshot: write one with opsdk snapshot") from error
    if header.format != _NAME:
        raise SnapshotError("this is not a snapshot: write one with opsdk snapshot")
    if header.format_version > FORMAT:
        raise SnapshotError(
            f"the snapshot has format {header.format_version}, and this version of opsdk reads format {FORMAT}: "
            "upgrade opsdk"
        )
    return header


def _object(line: bytes, number: int, pool: TreePool) -> JsonObject:
    try:
        obj: JsonObject = pool.share_parts(msgspec.json.decode(line, type=dict))
    except JSON_ERRORS as error:
        raise SnapshotError(f"line {number} of the snapshot is not an object: {error}. Take it again") from error
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or not all(
        isinstance(value, str) and value for value in (obj.get("kind"), obj.get("apiVersion"), metadata.get("name"))
    ):
        raise SnapshotError(f"line {number} of the snapshot lacks apiVersion, kind or metadata.name")
    return obj
