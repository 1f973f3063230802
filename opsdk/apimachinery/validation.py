"""Format rules of names, label keys and label values, with the server's messages. Each function returns the errors.

Upstream: k8s.io/apimachinery/pkg/util/validation/validation.go, pkg/api/validation/generic.go (v1.36)
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_SERVICE = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"

_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and"
    f" end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_SEARCH = r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SEARCHES = rf"{_SEARCH}(\.{_SEARCH})*"
_SEARCH_TEXT = _SUBDOMAIN_TEXT.replace("'-' or '.'", "'_', '-' or '.'").replace(_SUBDOMAIN, _SEARCHES)
_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with"
    f" an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
)
_SERVICE_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character,"
    " and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is"
    f" '{_SERVICE}')"
)
_QUALIFIED_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric"
    " character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is"
    f" '{_QUALIFIED}')"
)
_TWO_SLASHES = (
    f"a valid label key {_QUALIFIED_TEXT.removeprefix('name part ')} with an optional DNS subdomain prefix and '/'"
    " (e.g. 'example.com/MyName')"
)
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and"
    " end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is"
    " '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def _masked(name: str, *, prefix: bool) -> str:
    """Return a generateName prefix as a full name: any suffix may follow a trailing dash (``maskTrailingDash``)."""
    return f"{name[:-2]}a" if prefix and len(name) > 1 and name.endswith("-") else name


def _check(name: str, limit: int, pattern: str, text: str, unit: str = "characters") -> list[str]:
    errors = [f"must be no more than {limit} {unit}"] if len(name.encode()) > limit else []
    if not re.fullmatch(pattern, name):
        errors.append(text)
    return errors


def dns_subdomain(name: str, *, prefix: bool = False) -> Sequence[str]:
    """Check a DNS subdomain such as ``example.com``: the names of most objects."""
    return _check(_masked(name, prefix=prefix), 253, _SUBDOMAIN, _SUBDOMAIN_TEXT)


def dns_search(name: str) -> Sequence[str]:
    """Check a DNS search domain, whose labels may contain underscores."""
    return _check(name, 253, _SEARCHES, _SEARCH_TEXT)


def dns_label(name: str, *, prefix: bool = False) -> Sequence[str]:
    """Check a DNS label such as ``my-name``: namespaces."""
    name = _masked(name, prefix=prefix)
    dotted = re.fullmatch(_SUBDOMAIN, name)
    return _check(name, 63, _LABEL, "must not contain dots" if dotted else _LABEL_TEXT)


def dns_1035_label(name: str, *, prefix: bool = False) -> Sequence[str]:
    """Check a DNS label that starts with a letter: services."""
    return _check(_masked(name, prefix=prefix), 63, _SERVICE, _SERVICE_TEXT)


def path_segment(name: str, *, prefix: bool = False) -> Sequence[str]:
    """Check a name that may contain any character of a path segment: RBAC roles."""
    errors = [f"may not be '{name}'"] if name in (".", "..") and not prefix else []
    return [*errors, *(f"may not contain '{part}'" for part in ("/", "%") if part in name)]


def qualified_name(name: str) -> Sequence[str]:
    """Check a qualified name such as ``example.com/my-name``: label keys, finalizers."""
    parts = name.split("/")
    errors: list[str] = []
    if len(parts) > 2:
        return [_TWO_SLASHES]
    if len(parts) == 2:
        if not parts[0]:
            errors.append("prefix part must be non-empty")
        else:
            wrong = _check(parts[0], 253, _SUBDOMAIN, _SUBDOMAIN_TEXT, "bytes")
            errors.extend(f"prefix part {text}" for text in wrong)
    last = parts[-1]
    if not last:
        return [*errors, "name part must be non-empty", _QUALIFIED_TEXT]
    if len(last.encode()) > 63:
        errors.append("name part must be no more than 63 bytes")
    if not re.fullmatch(_QUALIFIED, last):
        errors.append(_QUALIFIED_TEXT)
    return errors


def label_value(value: str) -> Sequence[str]:
    """Check a label value."""
    errors = ["must be no more than 63 bytes"] if len(value.encode()) > 63 else []
    if value and not re.fullmatch(_QUALIFIED, value):
        errors.append(_VALUE_TEXT)
    return errors
