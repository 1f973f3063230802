"""Encodes YAML as kube-apiserver does: sorted keys, and quotes around strings that look like another type.

Upstream: sigs.k8s.io/yaml/goyaml.v2.
"""

from __future__ import annotations

import yaml

from opsdk.apiserver.serializer.yaml_documents import AMBIGUOUS
from opsdk.structured_merge.value import JsonObject


class _Dumper(yaml.SafeDumper):
    """Writes shared values in full instead of aliases."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - the hook's signature
        return True

    def represent_text(self, text: str) -> yaml.ScalarNode:
        """Quote a string that would have another type without quotes; write several lines as a block."""
        style: str | None = '"'
        if _OTHER_ENDS.isdisjoint(text):
            if "\n" in text:
                style = "|"
            elif self.resolve(yaml.ScalarNode, text, (True, False)) == _TEXT:  # type: ignore[no-untyped-call]
                style = None
        return self.represent_scalar(_TEXT, text, style=style)


_TEXT = "tag:yaml.org,2002:str"
_OTHER_ENDS = frozenset("\r\x85\u2028\u2029")
"""Line breaks that a parser would normalize in a block."""
_Dumper.add_representer(str, _Dumper.represent_text)
for _name, _firsts, _pattern in AMBIGUOUS:
    _Dumper.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", _pattern, list(_firsts))


def write_yaml(value: JsonObject) -> str:
    """Encode a document."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=True, allow_unicode=True)
    return text
