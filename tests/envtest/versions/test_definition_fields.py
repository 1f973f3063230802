"""The fields of definitions, whose versions `opsdk.apiserver.structural.older_servers` knows."""

from __future__ import annotations

import pytest

from envtest.data.schemas import types
from envtest.data.versions import VERSIONS

RULE = {"rule", "message", "messageExpression", "reason", "fieldPath", "optionalOldSelf"}
VERSION = {
    "additionalPrinterColumns", "deprecated", "deprecationWarning", "name", "schema", "selectableFields", "served",
    "storage", "subresources",
}  # fmt: skip


@pytest.mark.parametrize("version", VERSIONS)
def test_no_field_of_a_definition_is_without_a_version(version: str) -> None:
    """A field that a version of Kubernetes adds needs a line in `older_servers`: older servers drop it silently."""
    fields = {
        name.rpartition(".")[2]: set(schema.get("properties", ()))
        for name, schema in types(version).items()
        if ".apiextensions.v1." in name
    }
    assert fields["ValidationRule"] == RULE
    assert fields["CustomResourceDefinitionVersion"] == VERSION
