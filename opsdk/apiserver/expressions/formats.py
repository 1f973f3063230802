"""Named formats: ``format.dns1123Label().validate(name)``.

Upstream: k8s.io/apiserver/pkg/cel/library/format.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Final

from opsdk.apimachinery import validation
from opsdk.apiserver.strfmt import FORMATS
from opsdk.cel.declarations import CallEstimate, Library, function, method
from opsdk.cel.library.costs import estimate_unit, regex_cost, unit
from opsdk.cel.types import STRING, Type, Value, list_of, opaque, optional_of
from opsdk.cel.values import Opaque, Optional

FORMAT: Final = opaque("kubernetes.NamedFormat")

_LONGEST_REGEX: Final = 128
"""The regex size that cost estimates assume for a format."""


class FormatValue(Opaque):
    """A named format of strings."""

    __slots__ = ("check", "name", "regex_size")
    cel_type: ClassVar[Type] = FORMAT

    def __init__(self, name: str, check: Callable[[str], Sequence[str]], regex_size: int) -> None:
        self.name = name
        self.check = check
        self.regex_size = regex_size

    def equals(self, other: Value) -> bool:
        """Compare by name."""
        return isinstance(other, FormatValue) and self.name == other.name


def _by_schema_format(form: str, name: str) -> Callable[[str], Sequence[str]]:
    valid = FORMATS[form]
    return lambda text: () if valid(text) else (f"invalid {name}",)


def _masked(check: Callable[..., Sequence[str]]) -> Callable[[str], Sequence[str]]:
    return lambda text: check(text, prefix=True)


_NAMED: Final = {
    "dns1123Label": FormatValue("DNS1123Label", validation.dns_label, 30),
    "dns1123Subdomain": FormatValue("DNS1123Subdomain", validation.dns_subdomain, 60),
    "dns1035Label": FormatValue("DNS1035Label", validation.dns_1035_label, 30),
    "qualifiedName": FormatValue("QualifiedName", validation.qualified_name, 60),
    "dns1123LabelPrefix": FormatValue("DNS1123LabelPrefix", _masked(validation.dns_label), 30),
    "dns1123SubdomainPrefix": FormatValue("DNS1123SubdomainPrefix", _masked(validation.dns_subdomain), 60),
    "dns1035LabelPrefix": FormatValue("DNS1035LabelPrefix", _masked(validation.dns_1035_label), 30),
    "labelValue": FormatValue("LabelValue", validation.label_value, 40),
    "uri": FormatValue("URI", _by_schema_format("uri", "URI"), 1000),
    "uuid": FormatValue("UUID", _by_schema_format("uuid", "UUID"), 36),
    "byte": FormatValue("Byte", _by_schema_format("byte", "base64"), 1000),
    "date": FormatValue("Date", _by_schema_format("date", "date"), 1000),
    "datetime": FormatValue("DateTime", _by_schema_format("date-time", "datetime"), 1000),
}


def _validate(form: FormatValue, text: str) -> Optional:
    faults = list(form.check(text))
    return Optional.of(faults) if faults else Optional.none()


def _constant(name: str, value: FormatValue) -> Value:
    return function(f"const_{name}", (), FORMAT, lambda: value)


FORMAT_LIBRARY: Final = Library(
    functions={
        "format.named": [
            function(
                "format-named",
                (STRING,),
                optional_of(FORMAT),
                lambda name: Optional.of(_NAMED[name]) if name in _NAMED else Optional.none(),
                cost=unit,
                estimate=estimate_unit,
            )
        ],
        "validate": [
            method(
                "format-validate",
                (FORMAT, STRING),
                optional_of(list_of(STRING)),
                _validate,
                cost=lambda args, _: regex_cost(len(args[1]), args[0].regex_size),
                estimate=lambda sizes, operands: CallEstimate(
                    sizes.size(operands[1]).scaled(0.1).scaled(_LONGEST_REGEX * 0.25)
                ),
            )
        ],
        **{f"format.{name}": [_constant(name, value)] for name, value in _NAMED.items()},
    },
    types={FORMAT.name: FORMAT},
)
"""The named formats."""
