"""Encodes YAML as kube-apiserver does: sorted keys, and quotes around strings that look like another type.

Upstream: sigs.k8s.io/yaml/goyaml.v2.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, Final

import yaml
from yaml.emitter import Emitter
from yaml.representer import SafeRepresenter
from yaml.resolver import Resolver

from opsdk.aio.large_work import sort_in_parts
from opsdk.apimachinery.serializer.yaml_documents import AMBIGUOUS
from opsdk.structured_merge.value import JsonObject, JsonValue

# libyaml, where PyYAML has it: it takes a tenth of the time, and goyaml is a port of it.
try:
    from yaml._yaml import CEmitter
except ImportError:
    _emitter_type: Any = Emitter
else:
    _emitter_type = CEmitter

_TEXT = "tag:yaml.org,2002:str"
_OTHER_ENDS = frozenset("\r\x85\u2028\u2029")
"""Line breaks that a parser would normalize in a block."""


class _Resolver(Resolver):
    """Finds the types of plain scalars, goyaml's included."""


for _name, _firsts, _pattern in AMBIGUOUS:
    _Resolver.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", _pattern, list(_firsts))
_RESOLVER: Final = _Resolver()
_NUMBERS: Final = SafeRepresenter()


def write_yaml(value: JsonObject) -> str:
    """Encode a document. Shared values are written in full, without aliases."""
    stream = io.StringIO()
    emit = _emitter_type(stream, allow_unicode=True).emit
    emit(yaml.StreamStartEvent())
    emit(yaml.DocumentStartEvent(explicit=False))
    _write(value, emit)
    emit(yaml.DocumentEndEvent(explicit=False))
    emit(yaml.StreamEndEvent())
    return stream.getvalue()


def _write(value: JsonValue, emit: Callable[[yaml.Event], None]) -> None:
    """Emit the events of a value. Nodes of PyYAML would take twice the time, and a kilobyte for each value."""
    if isinstance(value, str):
        emit(_text(value))
    elif isinstance(value, dict):
        emit(yaml.MappingStartEvent(None, None, implicit=True, flow_style=False))
        for key in sort_in_parts(value, str):
            emit(_text(key))
            _write(value[key], emit)
        emit(yaml.MappingEndEvent())
    elif isinstance(value, list):
        emit(yaml.SequenceStartEvent(None, None, implicit=True, flow_style=False))
        for part in value:
            _write(part, emit)
        emit(yaml.SequenceEndEvent())
    else:
        plain = _NUMBERS.represent_data(value).value
        emit(yaml.ScalarEvent(None, None, (True, False), plain))


def _text(text: str) -> yaml.ScalarEvent:
    """Quote a string that would have another type without quotes; write several lines as a block."""
    style: str | None = '"'
    if _OTHER_ENDS.isdisjoint(text):
        if "\n" in text:
            style = "|"
        elif _RESOLVER.resolve(yaml.ScalarNode, text, (True, False)) == _TEXT:  # type: ignore[no-untyped-call]
            style = None
    return yaml.ScalarEvent(None, None, (style is None, True), text, style=style)
