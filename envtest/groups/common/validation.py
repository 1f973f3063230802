"""Field rules of many kinds, with the server's messages. Each yields causes.

Upstream: k8s.io/apimachinery/pkg/util/validation (v1.36)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import ROUND_FLOOR
from typing import Final

from opsdk.apimachinery import validation
from opsdk.apimachinery.quantity import Quantity
from opsdk.apiserver import api_errors
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject, JsonValue

NOT_NEGATIVE: Final = "must be greater than or equal to 0"
PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_CONFIG_KEY = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME', "
    " or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_HEADER = (
    "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for"
    " validation is '[-A-Za-z0-9]+')"
)


def not_negative(value: int | None, field: str) -> Iterator[Cause]:
    """Validate that a number is not negative."""
    if value is not None and value < 0:
        yield api_errors.invalid_value(field, value, NOT_NEGATIVE)


def in_range(value: int, low: int, high: int, field: str) -> Iterator[Cause]:
    """Validate that a number lies between two inclusive bounds."""
    if not low <= value <= high:
        yield api_errors.invalid_value(field, value, f"must be between {low} and {high}, inclusive")


def one_of(value: str | None, allowed: Sequence[str], field: str, *, optional: bool = False) -> Iterator[Cause]:
    """Validate a value against the allowed ones, listed in the given order."""
    if not value:
        if not optional:
            yield api_errors.required(field)
    elif value not in allowed:
        yield api_errors.unsupported(field, value, allowed)


def required(value: object, field: str, detail: str = "") -> Iterator[Cause]:
    """Validate that a value is present and not empty."""
    if not value:
        yield api_errors.required(field, detail)


def each(problems: Sequence[str], value: object, field: str) -> Iterator[Cause]:
    """Yield the problems of a name rule as causes."""
    for text in problems:
        yield api_errors.invalid_value(field, value, text)


def label(name: str, field: str) -> Iterator[Cause]:
    """Validate a DNS label."""
    yield from each(validation.dns_label(name), name, field)


def subdomain(name: str, field: str) -> Iterator[Cause]:
    """Validate a DNS subdomain."""
    yield from each(validation.dns_subdomain(name), name, field)


def labels(labels_map: Mapping[str, str], field: str) -> Iterator[Cause]:
    """Validate label keys and values."""
    for key, value in sorted(labels_map.items()):
        yield from each(validation.qualified_name(key), key, field)
        yield from each(validation.label_value(value), value, field)


# ------------------------------------------------------------------ ports
def port_number(value: int, field: str) -> Iterator[Cause]:
    """Validate a port number, 1 to 65535."""
    yield from in_range(value, 1, 65535, field)


def port_name_problems(name: str) -> list[str]:
    """Return why a port name is invalid."""
    problems = ["must be no more than 15 characters"] if len(name) > 15 else []
    if not re.fullmatch(r"[-a-z0-9]+", name):
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search(r"[a-z]", name):
        problems.append("must contain at least one letter (a-z)")
    if "--" in name:
        problems.append("must not contain consecutive hyphens")
    if name.startswith("-") or name.endswith("-"):
        problems.append("must not begin or end with a hyphen")
    return problems


def port_or_name(value: int | str, field: str) -> Iterator[Cause]:
    """Validate a port number or a port name."""
    if isinstance(value, int):
        yield from port_number(value, field)
    else:
        yield from each(port_name_problems(value), value, field)


# ------------------------------------------------------------------ paths and keys
def local_descending_path(path: str, field: str) -> Iterator[Cause]:
    """Validate a relative path without ``..``."""
    if path.startswith("/"):
        yield api_errors.invalid_value(field, path, "must be a relative path")
    yield from path_no_backsteps(path, field)


def path_no_backsteps(path: str, field: str) -> Iterator[Cause]:
    """Validate that a path has no ``..`` element."""
    if ".." in path.split("/"):
        yield api_errors.invalid_value(field, path, "must not contain '..'")


def local_non_reserved_path(path: str, field: str) -> Iterator[Cause]:
    """Validate a relative path that does not begin with ``..``, which volumes reserve."""
    yield from local_descending_path(path, field)
    if path.startswith("..") and not path.startswith("../"):
        yield api_errors.invalid_value(field, path, "must not start with '..'")


def config_key_problems(key: str) -> list[str]:
    """Return why a key of a ConfigMap or Secret is invalid."""
    problems = ["must be no more than 253 characters"] if len(key.encode()) > 253 else []
    if not re.fullmatch(r"[-._a-zA-Z0-9]+", key):
        problems.append(_CONFIG_KEY)
    if key == ".":
        problems.append("must not be '.'")
    elif key == "..":
        problems.append("must not be '..'")
    elif key.startswith(".."):
        problems.append("must not start with '..'")
    return problems


def header_name(name: str, field: str) -> Iterator[Cause]:
    """Validate the name of an HTTP header."""
    if not re.fullmatch(r"[-A-Za-z0-9]+", name):
        yield api_errors.invalid_value(field, name, _HEADER)


# ------------------------------------------------------------------ quantities
def positive_quantity(amount: str, field: str) -> Iterator[Cause]:
    """Validate that a quantity is positive."""
    if Quantity(amount).value <= 0:
        yield api_errors.invalid_value(field, amount, "must be greater than zero")


def non_negative_quantity(amount: str, field: str) -> Iterator[Cause]:
    """Validate that a quantity is not negative."""
    value = Quantity(amount).value
    if value < 0:
        # Upstream rounds away from zero: -0.5 is shown as -1.
        rounded = int(value.to_integral_value(ROUND_FLOOR))
        yield api_errors.invalid_value(field, rounded, "must be a valid resource quantity")


# ------------------------------------------------------------------ numbers or percentages
def int_or_percent(value: JsonValue, field: str) -> Iterator[Cause]:
    """Validate ``3`` or ``25%``, not negative."""
    if isinstance(value, str):
        if not re.fullmatch(r"[0-9]{1,18}%", value):
            text = (
                "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%',"
                " regex used for validation is '[0-9]+%')"
            )
            yield api_errors.invalid_value(field, value, text)
    elif isinstance(value, int):
        yield from not_negative(value, field)


def not_more_than_100_percent(value: JsonValue, field: str) -> Iterator[Cause]:
    """Validate that a percentage is at most 100 %."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,18}%", value) and int(value[:-1]) > 100:
        yield api_errors.invalid_value(field, value, "must not be greater than 100%")


def numeric_value(value: JsonValue) -> int:
    """Return a number, or the number of a percentage, to compare with zero."""
    if isinstance(value, int):
        return value
    return int(value[:-1]) if isinstance(value, str) and re.fullmatch(r"[0-9]{1,18}%", value) else 0


def immutable_field(
    obj: JsonObject, old: JsonObject, key: str, path: str = "", why: str = "field is immutable"
) -> Iterator[Cause]:
    """Validate that a field is immutable; `path` is the field's path if it is not `key`."""
    if (obj.get(key) or None) != (old.get(key) or None):
        yield api_errors.invalid_value(path or key, obj.get(key), why)


_PATH: Final = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"


def domain_path(text: str, path: str) -> Iterator[Cause]:
    """Validate ``example.com/thing``."""
    if not text:
        yield api_errors.required(path)
        return
    host, slash, rest = text.partition("/")
    if not (host and slash and rest):
        yield api_errors.invalid_value(path, text, 'must be a domain-prefixed path (such as "acme.io/foo")')
        return
    yield from each(validation.dns_subdomain(host), host, path)
    if not re.fullmatch(_PATH, rest):
        yield api_errors.invalid_value(path, rest, f"Invalid path (regex used for validation is '{_PATH}')")
