"""Equal parts of JSON trees as one part: objects of a cluster are much alike, and a decoder repeats what they share."""

from __future__ import annotations

from opsdk.structured_merge.value import JsonObject, JsonValue


class TreePool:
    """Keeps one of all equal strings, lists and objects. Trees that go through it must not be changed afterwards.

    Half of a Pod is its ``managedFields``, which the other Pods of its ReplicaSet have too: 10,000 objects of a
    thousand like applications take a quarter of the memory.

    >>> pool = TreePool()
    >>> one, other = pool.share({"a": {"b": "c"}}), pool.share({"a": {"b": "c"}, "d": 1})
    >>> one["a"] is other["a"]
    True
    """

    def __init__(self) -> None:
        self._strings: dict[str, str] = {}
        self._integers: dict[int, int] = {}
        self._floats: dict[str, float] = {}
        self._objects: dict[tuple[str | int, ...], JsonObject] = {}
        self._lists: dict[tuple[int, ...], list[JsonValue]] = {}

    def share(self, tree: JsonValue) -> JsonValue:
        """Return an equal tree whose parts are shared with earlier ones. The given tree may be changed.

        Raises:
            RecursionError: the tree is nested too deeply.
        """
        kind = type(tree)
        if kind is str:
            return self._strings.setdefault(tree, tree)
        if kind is dict:
            for key, part in tree.items():
                tree[key] = self.share(part)
            # The parts stay in the pool, so that their ids are theirs alone.
            return self._objects.setdefault((*tree, *map(id, tree.values())), tree)
        if kind is list:
            tree[:] = map(self.share, tree)
            return self._lists.setdefault(tuple(map(id, tree)), tree)
        if kind is int:
            return self._integers.setdefault(tree, tree)
        if kind is float:
            return self._floats.setdefault(repr(tree), tree)  # 0.0 and -0.0 are equal
        return tree

    def share_parts(self, obj: JsonObject) -> JsonObject:
        """Return an object of a cluster with shared parts. It and its metadata are its own: they have a uid.

        Raises:
            RecursionError: the object is nested too deeply.
        """
        for key, part in obj.items():
            if key == "metadata" and type(part) is dict:
                self.share_parts(part)
            else:
                obj[key] = self.share(part)
        return obj
