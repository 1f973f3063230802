"""The base of options.

A dataclass generates the source of its methods when it is defined, and compiles it: the options of an operator took a
tenth of its import. A struct has the same methods from C.
"""

from __future__ import annotations

import dataclasses
from functools import lru_cache
from typing import Any

import msgspec

from opsdk.base.place import caller_place
from opsdk.errors import UsageError


@lru_cache(maxsize=256)
def _dataclass_fields(options: type[Options]) -> dict[str, dataclasses.Field[object]]:
    equivalent = dataclasses.make_dataclass(options.__name__, options.__struct_fields__)
    return {field.name: field for field in dataclasses.fields(equivalent)}


class _DataclassFields:
    def __get__(self, instance: Options | None, owner: type[Options]) -> dict[str, dataclasses.Field[object]]:
        return _dataclass_fields(owner)


class _OptionsType(msgspec.StructMeta):
    """Says which keywords there are: msgspec names neither the class nor its fields."""

    def __call__(self, *arguments: object, **values: object) -> Any:
        try:
            return super().__call__(*arguments, **values)
        except TypeError:
            unknown = ", ".join(sorted(set(values) - set(self.__struct_fields__)))
            if not unknown and not arguments:
                raise
            words = f"does not take {unknown}: it takes" if unknown else "takes keywords only:"
            keywords = ", ".join(self.__struct_fields__)
            raise UsageError(f"{caller_place()}: {self.__name__} {words} {keywords}") from None


class Options(msgspec.Struct, frozen=True, kw_only=True, metaclass=_OptionsType):
    """Frozen, keyword-only options, equal by value.

    `msgspec.structs.replace` changes some of them, and so does `dataclasses.replace`.

    >>> class CacheSize(Options, frozen=True, kw_only=True):
    ...     objects: int = 100
    >>> msgspec.structs.replace(CacheSize(), objects=5)
    CacheSize(objects=5)
    """

    __dataclass_fields__ = _DataclassFields()
