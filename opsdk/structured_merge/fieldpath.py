"""Sets of field paths, in the wire form ``FieldsV1``.

A path is a tuple of elements, spelled as in ``FieldsV1``: ``f:<name>`` is a field, ``k:<json>`` the list element with
these keys, ``v:<json>`` the list element with this value, ``i:<n>`` the element at this index. A `FieldSet` stores for
each element whether the path that ends there is a member, and the set of paths below.

Upstream: sigs.k8s.io/structured-merge-diff/v6/fieldpath
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final

from opsdk.aio.large_work import sort_in_parts
from opsdk.base.text_cache import text_cache
from opsdk.errors import DecodeError
from opsdk.structured_merge.go_format import go_float, go_quote
from opsdk.structured_merge.identity_cache import IdentityCache, drop_oldest
from opsdk.structured_merge.value import JsonObject, JsonValue

Path = tuple[str, ...]

_CACHED: Final = 8192
"""Elements repeat across objects, but owner references and host names do not. This many use a few MB."""
_LONGEST: Final = 256
"""Characters of the longest element that is cached: a client may send elements of 3 MB."""


def field_element(name: str) -> str:
    """Return the path element of an object's field."""
    return "f:" + name


def key_element(keys: Mapping[str, JsonValue]) -> str:
    """Return the path element of a list element identified by keys.

    >>> key_element({"protocol": "TCP", "containerPort": 80})
    'k:{"containerPort":80,"protocol":"TCP"}'
    """
    try:
        return _key_element(*keys, *keys.values())
    except TypeError:  # unhashable or long, so it is not cached
        return "k:" + _compact(dict(sorted(keys.items())))


@lru_cache(maxsize=_CACHED, typed=True)
def _key_element(*names_and_values: object) -> str:
    """Return the element. Cached, because keys repeat; `typed`, because 1, 1.0 and true are equal in Python."""
    count = len(names_and_values) // 2
    if any(isinstance(part, str) and len(part) > _LONGEST for part in names_and_values):
        raise TypeError("an lru_cache keeps no result of a call that raises")
    return "k:" + _compact(dict(sorted(zip(names_and_values[:count], names_and_values[count:], strict=True))))


def value_element(value: JsonValue) -> str:
    """Return the path element of a member of a set."""
    return "v:" + _compact(value)


_compact: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@text_cache(_CACHED, longest=_LONGEST)
def _canonical(element: str) -> str:
    """Return the canonical spelling of an element, so that equal elements are equal strings."""
    kind, rest = element[:2], element[2:]
    try:
        match kind:
            case "f:":
                return element
            case "k:":
                return key_element(json.loads(rest))
            case "v:":
                return value_element(json.loads(rest))
            case "i:":
                return f"i:{int(rest)}"
    except (ValueError, AttributeError, TypeError) as error:
        raise DecodeError(f"fieldsV1: {element!r} is not a path element: {error}") from error
    raise DecodeError(f"fieldsV1: {element!r} must start with f:, k:, v: or i:")


_KINDS: Final = {"f": 0, "k": 1, "v": 2, "i": 3}


@text_cache(_CACHED, longest=_LONGEST)
def _order(element: str) -> tuple[object, ...]:
    """Return the server's sort key: fields, keys, values, indices; each in its own order."""
    kind, rest = element[0], element[2:]
    if kind == "f":
        return (0, rest.encode())
    value = json.loads(rest)
    if kind == "k":
        return (1, tuple((name.encode(), _rank(part)) for name, part in value.items()))
    return (_KINDS[kind], _rank(value))


def _rank(value: JsonValue) -> tuple[object, ...]:
    match value:
        case bool():
            return (2, value)
        case int() | float():
            return (0, value)
        case str():
            return (1, value.encode())
        case None:
            return (5,)
    return (3 if isinstance(value, list) else 4, _compact(value))


@text_cache(_CACHED, longest=_LONGEST)
def _text(element: str) -> str:
    kind, rest = element[0], element[2:]
    match kind:
        case "f":
            return "." + rest
        case "k":
            return "[" + ",".join(f"{name}={_value_text(part)}" for name, part in json.loads(rest).items()) + "]"
        case "v":
            return f"[={_value_text(json.loads(rest))}]"
    return f"[{rest}]"


def _value_text(value: JsonValue) -> str:
    match value:
        case str():
            return go_quote(value)
        case bool() | None:
            return json.dumps(value)
        case float():
            return go_float(value)
        case list():
            return "[" + ",".join(map(_value_text, value)) + "]"
        case dict():
            return "{" + ";".join(f"{name}={_value_text(part)}" for name, part in value.items()) + "}"
    return str(value)


def format_path(path: Iterable[str]) -> str:
    """Return a path as conflict messages print it.

    >>> format_path(["f:spec", "f:containers", 'k:{"name":"a"}', "f:image"])
    '.spec.containers[name="a"].image'
    """
    return "".join(map(_text, path))


class FieldSet:
    """An immutable set of paths (``fieldpath.Set``).

    >>> owned = FieldSet.from_fields_v1({"f:data": {".": {}, "f:x": {}}})
    >>> [format_path(path) for path in owned]
    ['.data', '.data.x']
    """

    __slots__ = ("_hash", "_wire", "children", "members")

    members: frozenset[str]
    children: Mapping[str, FieldSet]
    _wire: JsonObject | None
    _hash: int | None

    def __init__(self, members: Iterable[str] = (), children: Mapping[str, FieldSet] | None = None) -> None:
        """Create a set from the elements that end a path here, and the sets below. Empty children are dropped."""
        self.members = frozenset(members)
        self.children = {element: child for element, child in (children or {}).items() if child}
        self._wire = self._hash = None

    @classmethod
    def from_parts(cls, members: Iterable[str], children: Mapping[str, FieldSet]) -> FieldSet:
        """Return the set of these parts without checks; no child may be empty. For code that walks whole objects."""
        if not members and not children:
            return EMPTY
        fields = cls.__new__(cls)
        fields.members, fields.children = frozenset(members), children
        fields._wire = fields._hash = None  # noqa: SLF001 - the same class
        return fields

    @classmethod
    def of(cls, *paths: Iterable[str]) -> FieldSet:
        """Return the set of these paths. Keys inside elements may be in any order."""
        builder = FieldSetBuilder()
        for path in paths:
            builder.add(tuple(map(_canonical, path)))
        return builder.build()

    @classmethod
    def from_fields_v1(cls, fields: Mapping[str, JsonValue]) -> FieldSet:
        """Decode the wire form.

        Raises:
            DecodeError: an element is malformed.
        """
        if not isinstance(fields, Mapping):
            raise DecodeError("fieldsV1 is not an object")
        cached = _WIRES.get(fields)
        return cls._decode(fields) if cached is None else cached

    @classmethod
    def _decode(cls, fields: Mapping[str, JsonValue]) -> FieldSet:
        """Return the set of a fieldsV1 document. Raises `DecodeError`."""
        members: set[str] = set()
        children: dict[str, FieldSet] = {}
        for raw, below in fields.items():
            if raw == ".":
                continue
            # A dict first: the check against an abstract class is a call.
            if type(below) is not dict and not isinstance(below, Mapping):
                raise DecodeError(f"fieldsV1: the value of {raw!r} is not an object")
            element = raw if raw.startswith("f:") else _canonical(raw)
            if not below or "." in below:
                members.add(element)
            if below and (child := cls._decode(below)) is not EMPTY:
                children[element] = child
        return cls.from_parts(members, children)

    def to_fields_v1(self) -> JsonObject:
        """Return the wire form in the server's key order. It is built once and shared: do not change it."""
        if self._wire is None:
            first = _FIRSTS.setdefault(self, self)
            if first is not self:
                self._wire = first.to_fields_v1()
                return self._wire
            if len(_FIRSTS) > _FIRSTS_LIMIT:
                drop_oldest(_FIRSTS)
            self._wire = self._encode()
            _WIRES.put(self._wire, self)
        return self._wire

    def shared(self) -> FieldSet:
        """Return an equal set that shares all parts it has in common with recent results of this method.

        The sets of objects that are alike differ in little, such as the uid of an owner reference.
        """
        first = _SHARED.get(self)
        if first is not None:
            return first
        # Equal ones take the place of the children, so the set stays the same.
        self.children = {element: child.shared() for element, child in self.children.items()}
        if len(_SHARED) >= _FIRSTS_LIMIT:
            drop_oldest(_SHARED)
        _SHARED[self] = self
        return self

    def weight(self) -> int:
        """Return the bytes of the set without its shared parts, roughly."""
        return 300 + 60 * len(self.members) + 100 * len(self.children)

    def _encode(self) -> JsonObject:
        """Return the wire form. It shares its parts with recent ones: the sets of like objects differ in little."""
        tree: JsonObject = {}
        for element in self.elements():
            child = self.children.get(element, EMPTY)
            below = child._part()  # noqa: SLF001 - the same class
            tree[element] = {".": EMPTY._part(), **below} if child and element in self.members else below  # noqa: SLF001
        return tree

    def _part(self) -> JsonObject:
        """Return the wire form of a set below another one."""
        if self._wire is None:
            if len(_PARTS) >= _FIRSTS_LIMIT:
                drop_oldest(_PARTS)
            first = _PARTS.setdefault(self, self)
            self._wire = self._encode() if first is self else first._part()  # noqa: SLF001 - the same class
        return self._wire

    def elements(self) -> list[str]:
        """Return the first elements of all paths, sorted."""
        return sort_in_parts(self.members | self.children.keys(), _order)

    def __bool__(self) -> bool:
        return bool(self.members or self.children)

    @property
    def is_empty(self) -> bool:
        """Whether the set has no path."""
        return not self

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, FieldSet):
            return NotImplemented
        return self.members == other.members and self.children == other.children

    def __hash__(self) -> int:
        # Sets of a thousand objects that are alike differ only deep below, in the uid of an owner. Their hashes must
        # differ too: else each look-up compares with all of them.
        if self._hash is None:
            self._hash = hash((self.members, frozenset(self.children.items())))
        return self._hash

    def __repr__(self) -> str:
        return f"FieldSet({', '.join(map(format_path, self))})"

    def __iter__(self) -> Iterator[Path]:
        """Iterate over all paths: at each level the members first, then the paths below, each sorted."""
        for member in sort_in_parts(self.members, _order):
            yield (member,)
        for element in sort_in_parts(self.children, _order):
            for rest in self.children[element]:
                yield (element, *rest)

    def __len__(self) -> int:
        return len(self.members) + sum(map(len, self.children.values()))

    def contains(self, path: Iterable[str]) -> bool:
        """Whether exactly this path is a member. Paths above or below it do not count."""
        node = self
        *parents, last = map(_canonical, path)
        for element in parents:
            node = node.with_prefix(element)
        return last in node.members

    __contains__ = contains

    def with_prefix(self, element: str) -> FieldSet:
        """Return the paths that start with `element`, without that element (``Set.WithPrefix``)."""
        return self.children.get(element, EMPTY)

    def union(self, other: FieldSet) -> FieldSet:
        """Return the paths of either set. Returns self if nothing is new."""
        if other is EMPTY or self is other:
            return self
        if self is EMPTY:
            return other
        changed = {}
        for element, child in other.children.items():
            own = self.children.get(element)
            both = child if own is None else own.union(child)
            if both is not own:
                changed[element] = both
        if not changed and other.members <= self.members:
            return self
        return FieldSet.from_parts(self.members | other.members, {**self.children, **changed})

    __or__ = union

    def intersection(self, other: FieldSet) -> FieldSet:
        """Return the paths of both sets."""
        if self is other:
            return self
        children = {}
        for element in self.children.keys() & other.children.keys():
            common = self.children[element].intersection(other.children[element])
            if common:
                children[element] = common
        return FieldSet.from_parts(self.members & other.members, children)

    __and__ = intersection

    def difference(self, other: FieldSet) -> FieldSet:
        """Return the paths not in `other`. Paths below a path of `other` stay. Returns self if nothing changes."""
        if other is EMPTY:
            return self
        members, common = self.members - other.members, self.children.keys() & other.children.keys()
        if not common and len(members) == len(self.members):
            return self
        changed = {element: self.children[element].difference(other.children[element]) for element in common}
        return self._without(members, changed)

    __sub__ = difference

    def recursive_difference(self, other: FieldSet) -> FieldSet:
        """Return the paths that are neither in `other` nor below one of its paths. Returns self if nothing changes."""
        if other is EMPTY or self is EMPTY:
            return self
        changed = {
            element: self.children[element].recursive_difference(other.children[element])
            for element in self.children.keys() & other.children.keys()
        }
        changed |= dict.fromkeys(self.children.keys() & other.members, EMPTY)
        return self._without(self.members - other.members, changed)

    def _without(self, members: frozenset[str], changed: Mapping[str, FieldSet]) -> FieldSet:
        """Return this set with `members` and `changed` children; self if nothing was removed."""
        if len(members) == len(self.members) and all(self.children[element] is changed[element] for element in changed):
            return self
        children = {element: changed.get(element, child) for element, child in self.children.items()}
        nonempty = {element: child for element, child in children.items() if child is not EMPTY}
        return FieldSet.from_parts(members, nonempty)

    def leaves(self) -> FieldSet:
        """Return the paths that have no path below them."""
        children = {element: child.leaves() for element, child in self.children.items()}
        return FieldSet(self.members - self.children.keys(), children)


class FieldSetBuilder:
    """Collects paths with canonical elements, and builds one set."""

    __slots__ = ("_children", "_members")

    def __init__(self) -> None:
        self._members: set[str] = set()
        self._children: dict[str, FieldSetBuilder] = {}

    def insert(self, element: str) -> None:
        """Add the path that ends with `element` here."""
        self._members.add(element)

    def below(self, element: str) -> FieldSetBuilder:
        """Return the builder of the paths that start with `element`."""
        child = self._children.get(element)
        if child is None:
            child = self._children[element] = FieldSetBuilder()
        return child

    def add(self, path: Path) -> None:
        """Add a whole path. The empty path is ignored."""
        if path:
            node = self
            for element in path[:-1]:
                node = node.below(element)
            node.insert(path[-1])

    def build(self) -> FieldSet:
        """Return the set of the collected paths."""
        return FieldSet(self._members, {element: child.build() for element, child in self._children.items()})


EMPTY: Final = FieldSet()
"""The empty set."""

_FIRSTS_LIMIT: Final = 4096
_FIRSTS: Final[dict[FieldSet, FieldSet]] = {}
"""The first of equal sets. Objects that are alike have equal sets, so their wire form is built and kept once."""

_PARTS: Final[dict[FieldSet, FieldSet]] = {}
"""The first of equal sets below others."""

_SHARED: Final[dict[FieldSet, FieldSet]] = {}
"""Recent results of `FieldSet.shared`, and their parts."""

_WIRES: Final = IdentityCache[FieldSet](limit=8192)
"""Sets by their wire form: the same wire forms come back with every write. A few KB for each manager."""
