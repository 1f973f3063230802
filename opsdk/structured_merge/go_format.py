"""Go's value formats: the server builds its messages with ``%v`` and ``%q``, and clients compare them.

Upstream: fmt, strconv and encoding/json of Go 1.25
"""

from __future__ import annotations

import json
import math
from operator import is_
from typing import Final

from opsdk.structured_merge.value import JsonValue

_ESCAPES: Final = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}


def go_quote(text: str) -> str:
    r"""Return the string as ``strconv.Quote`` writes it.

    >>> print(go_quote('a"b\nc'))
    "a\"b\nc"
    """
    return '"' + "".join(_ESCAPES.get(char) or (char if char.isprintable() else _escape(char)) for char in text) + '"'


def _escape(char: str) -> str:
    code = ord(char)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def go_float(number: float) -> str:
    """Return the float as ``%v`` writes it: shortest digits, exponent below 1e-4 and from 1e6.

    >>> go_float(2.5), go_float(3.0), go_float(4e9), go_float(1234567.5)
    ('2.5', '3', '4e+09', '1.2345675e+06')
    """
    if math.isnan(number) or math.isinf(number):
        return {"inf": "+Inf", "-inf": "-Inf"}.get(str(number), "NaN")
    if number == 0:
        return "-0" if math.copysign(1, number) < 0 else "0"
    size = abs(number)
    if 1e-4 <= size < 1e6:
        text = format(number, "f") if float(format(number, "f")) == number else _plain(number)
        return text.rstrip("0").rstrip(".") if "." in text else text
    for digits in range(18):
        text = format(number, f".{digits}e")
        if float(text) == number:
            return text
    return repr(number)


def _plain(number: float) -> str:
    for digits in range(7, 25):
        text = format(number, f".{digits}f")
        if float(text) == number:
            return text
    return repr(number)


def go_scalar(value: JsonValue) -> str:
    """Return a JSON scalar as ``%v`` writes it."""
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return go_float(value)
    return str(value)


_TYPES: Final[dict[type, str]] = {
    type(None): "<nil>",
    bool: "bool",
    int: "int64",
    float: "float64",
    str: "string",
    list: "[]interface {}",
    dict: "map[string]interface {}",
}


def go_typename(value: JsonValue) -> str:
    """Return the type of a JSON value as ``%T`` writes it."""
    return _TYPES[type(value)]


def go_value(value: JsonValue) -> str:
    """Return a JSON value as ``%v`` writes it: maps sorted by key, lists separated by spaces.

    >>> go_value({"b": [1, "x"], "a": None})
    'map[a:<nil> b:[1 x]]'
    """
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{go_value(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list | tuple):
        return "[" + " ".join(go_value(item) for item in value) + "]"
    return go_scalar(value)


def go_string(value: JsonValue) -> str:
    """Return a JSON value as ``%s`` writes it: strings unchanged, other types as a format error.

    >>> go_string("a"), go_string(1), go_string([None])
    ('a', '%!s(int64=1)', '[%!s(<nil>)]')
    """
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{go_string(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list | tuple):
        return "[" + " ".join(map(go_string, value)) + "]"
    if isinstance(value, str):
        return value
    return "%!s(<nil>)" if value is None else f"%!s({go_typename(value)}={go_scalar(value)})"


def go_syntax(value: JsonValue) -> str:
    """Return a JSON value as ``%#v`` writes it; some messages show a value of the wrong type this way.

    >>> go_syntax({"a": [1, "x"]})
    'map[string]interface {}{"a":[]interface {}{1, "x"}}'
    """
    if isinstance(value, dict):
        return (
            "map[string]interface {}{" + ", ".join(f"{go_quote(k)}:{go_syntax(value[k])}" for k in sorted(value)) + "}"
        )
    if isinstance(value, list | tuple):
        return "[]interface {}{" + ", ".join(map(go_syntax, value)) + "}"
    return go_quote(value) if isinstance(value, str) else go_scalar(value)


def go_json(value: JsonValue, *, ordered: bool = False) -> str:
    r"""Return a JSON value as ``json.Marshal`` writes it: sorted keys, no spaces, ``<``, ``>`` and ``&`` escaped.

    Args:
        value: the JSON value.
        ordered: keep the order of the keys, as for Go structs.

    >>> print(go_json({"b": 1.0, "a": "<x>"}))
    {"a":"\u003cx\u003e","b":1}
    """
    text = json.dumps(whole_numbers(value), ensure_ascii=False, sort_keys=not ordered, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def whole_numbers(value: JsonValue) -> JsonValue:
    """Replace floats without a fraction by integers, as Go writes them. Unchanged parts are shared.

    >>> whole_numbers({"a": [1.0, 1.5, 1e21]})
    {'a': [1, 1.5, 1e+21]}
    """
    if isinstance(value, dict):
        whole = {key: whole_numbers(item) for key, item in value.items()}
        return value if all(map(is_, whole.values(), value.values())) else whole
    if isinstance(value, list | tuple):
        listed = [whole_numbers(item) for item in value]
        return value if all(map(is_, listed, value)) else listed
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e21 else value
