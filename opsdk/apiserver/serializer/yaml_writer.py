"""Writes YAML as the server does: sorted, with quotes where a reader would take a text for something else.

Upstream: sigs.k8s.io/yaml/goyaml.v2.
"""

from __future__ import annotations

import yaml

from opsdk.apiserver.serializer.yaml_documents import AMBIGUOUS
from opsdk.structured_merge.value import JsonObject


class _Dumper(yaml.SafeDumper):
    """Parts that are shared in memory are written out each time."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - the shape of the hook
        return True

    def represent_text(self, text: str) -> yaml.ScalarNode:
        """Double quotes around what would be something else without them; several lines as they are."""
        style: str | None = '"'
        if _OTHER_ENDS.isdisjoint(text):
            if "\n" in text:
                style = "|"
            elif self.resolve(yaml.ScalarNode, text, (True, False)) == _TEXT:  # type: ignore[no-untyped-call]
                style = None
        return self.represent_scalar(_TEXT, text, style=style)


_TEXT = "tag:yaml.org,2002:str"
_OTHER_ENDS = frozenset("\r\x85\u2028\u2029")
"""Ends of lines that readers make others of, where they stand as they are."""
_Dumper.add_representer(str, _Dumper.represent_text)
for _name, _firsts, _pattern in AMBIGUOUS:
    _Dumper.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", _pattern, list(_firsts))


def write_yaml(value: JsonObject) -> str:
    """Return a document."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=True, allow_unicode=True)
    return text
