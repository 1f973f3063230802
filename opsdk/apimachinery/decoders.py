"""Builds the JSON decoder of a class in short steps, before the first object arrives.

msgspec builds the decoder of a class with those of all nested classes in one call: 20 ms or more for the 130 classes of
a Pod. A thread does not help: msgspec publishes a class before its fields are complete, so that recursive classes work,
and a second thread could decode with the incomplete one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any, get_args

import msgspec

from opsdk.apimachinery.model import decode_hook
from opsdk.errors import UsageError

# Classes of a step: 2 to 4 ms.
_STEP_CLASSES = 8


def decoder_steps(form: type[msgspec.Struct]) -> Iterator[None]:
    """Build the decoder of `form` while the caller iterates. It may do other work between two steps.

    The number of steps depends on the class only, not on what the process has decoded before. Raises `UsageError` for a
    class with annotations that have no JSON form.

    Example:
        >>> from opsdk.api.core.v1 import Pod
        >>> steps = decoder_steps(Pod)
        >>> len(list(steps)) > 5
        True
    """
    try:
        for number, nested in enumerate(_bottom_up(form, set()), 1):
            msgspec.json.Decoder(nested, dec_hook=decode_hook)
            if number % _STEP_CLASSES == 0:
                yield
    except (TypeError, NameError) as error:
        raise annotation_error(form, error) from error


def annotation_error(form: type[msgspec.Struct], error: Exception) -> UsageError:
    """Return the error of a class that has annotations without a JSON form. It names the class and the field.

    Args:
        form: the class, or one with the wrong class in a field.
        error: of msgspec, which names the annotation only.
    """
    text = f"{form.__name__} cannot be decoded, correct its annotations: {_wrong_field(form)}{error}"
    if "| None, msgspec" in str(error) or "Optional[" in str(error):
        text += ": move the bounds to the type without None, as in Annotated[int, Meta(ge=1)] | None"
    return UsageError(text)


def _wrong_field(form: type[msgspec.Struct]) -> str:
    """Return the first field with a wrong annotation as ``Class.field: ``; empty if it cannot be found."""
    with suppress(NameError):  # a name of an annotation that does not exist
        for nested in _bottom_up(form, set()):
            for field in msgspec.structs.fields(nested):
                try:
                    msgspec.json.Decoder(field.type, dec_hook=decode_hook)
                except TypeError:
                    return f"{nested.__name__}.{field.name}: "
    return ""


def _bottom_up(form: type[msgspec.Struct], visited: set[type]) -> Iterator[type[msgspec.Struct]]:
    """Iterate over a class and its nested classes; a class comes after those of its fields, except in a cycle."""
    visited.add(form)
    for nested in _classes_of_fields(form):
        if nested not in visited:
            yield from _bottom_up(nested, visited)
    yield form


@lru_cache(maxsize=4096)
def _classes_of_fields(form: type[msgspec.Struct]) -> tuple[type[msgspec.Struct], ...]:
    classes: dict[type[msgspec.Struct], None] = {}
    pending: list[Any] = [field.type for field in msgspec.structs.fields(form)]
    while pending:
        annotation = pending.pop()
        pending += get_args(annotation)
        if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
            classes[annotation] = None
    return tuple(classes)
