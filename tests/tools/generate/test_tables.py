"""Facts become lines: each rule of each table."""

from __future__ import annotations

import pytest

from envtest.data.rbac import bootstrap_policy
from envtest.data.table import without_header
from opsdk.structured_merge.value import JsonObject
from tools.generate.column_facts import ColumnFacts, KindColumns, parse_columns_facts, render_columns_facts
from tools.generate.columns import render_columns
from tools.generate.fields import render_fields
from tools.generate.header import Provenance, version_of
from tools.generate.messages import render_messages
from tools.generate.policy_facts import sorted_policy
from tools.generate.rbac import render_rbac
from tools.generate.resources import render_resources, resource_rows
from tools.generate.schemas import type_lines
from tools.generate.struct_facts import parse_structs

STRUCTS = """package k8s.io/api/x/v1
import metav1 k8s.io/apimachinery/pkg/apis/meta/v1
import resource k8s.io/apimachinery/pkg/api/resource
named Phase string
named Phases []Phase
struct A
  + B
  %s
struct B
  kind string omitempty
"""


@pytest.mark.parametrize(
    ("field", "word"),
    [
        ("f string omitempty", "f"),
        ("f string", "f="),
        ("f *string omitempty", "f*"),
        ("f *string", "f?"),
        ("f []string omitempty", "f"),
        ("f []string", "f?"),
        ("f *B omitempty", "f"),
        ("f B omitempty", "f="),
        ("f B omitempty omitzero", "f"),
        ("f Phase", "f:v1.Phase="),
        ("f *Phase omitempty", "f:v1.Phase*"),
        ("f Phases", "f:v1.Phases?"),
        ("f *Phases omitempty", "f:v1.Phases"),
        ("f map[Phase]resource.Quantity omitempty", "f:map[v1.Phase]resource.Quantity"),
        ("f metav1.Time", "f?"),
        ("f metav1.Time omitempty", "f?"),
        ("f metav1.Time omitempty omitzero", "f"),
        ("f *metav1.Time omitempty", "f"),
        ("f resource.Quantity omitempty", "f="),
        ("f *resource.Quantity omitempty", "f*"),
    ],
)
def test_marks_of_fields(field: str, word: str) -> None:
    """Type and tag decide whether and how a zero is written; embedded fields stand first, with their struct's name."""
    text = render_fields({"io.k8s.api.x.v1.A": {"properties": {}}, "raw": {}}, parse_structs(STRUCTS % field))
    assert text == f"io.k8s.api.x.v1.A B/kind {word}\n"


DISCOVERY: JsonObject = {
    "api": {
        "items": [
            {
                "metadata": {},
                "versions": [
                    {
                        "version": "v1",
                        "resources": [
                            {
                                "resource": "events",
                                "scope": "Namespaced",
                                "verbs": ["get"],
                                "responseKind": {"group": "", "version": "v1", "kind": "Event"},
                            },
                        ],
                    }
                ],
            }
        ]
    },
    "apis": {
        "items": [
            {
                "metadata": {"name": "events.k8s.io"},
                "versions": [
                    {
                        "version": "v1",
                        "resources": [
                            {
                                "resource": "events",
                                "scope": "Cluster",
                                "verbs": [],
                                "responseKind": {"group": "", "version": "", "kind": "Event"},
                                "subresources": [
                                    {
                                        "subresource": "scale",
                                        "verbs": ["get"],
                                        "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
                                    },
                                    {
                                        "subresource": "status",
                                        "verbs": ["get"],
                                        "responseKind": {"group": "", "version": "", "kind": "Event"},
                                    },
                                ],
                            }
                        ],
                    }
                ],
            }
        ]
    },
}


def test_rows_of_resources() -> None:
    """The core group comes first; a subresource names the group of its kind only if it has one."""
    assert render_resources(DISCOVERY).splitlines() == [
        '{"group": "", "version": "v1", "resource": "events", "verbs": ["get"], "kind": "Event", "namespaced": true}',
        (
            '{"group": "events.k8s.io", "version": "v1", "resource": "events", "verbs": [], "kind": "Event",'
            ' "namespaced": false}'
        ),
        (
            '{"group": "events.k8s.io", "version": "v1", "resource": "events", "subresource": "scale", "kind": "Scale",'
            ' "verbs": ["get"], "kindGroup": "autoscaling", "kindVersion": "v1", "namespaced": false}'
        ),
        (
            '{"group": "events.k8s.io", "version": "v1", "resource": "events", "subresource": "status",'
            ' "kind": "Event", "verbs": ["get"], "namespaced": false}'
        ),
    ]


def test_blocks_of_columns() -> None:
    """Kinds that are not served are left out; the two groups of Event share a block; a scale is a subresource."""
    age = ColumnFacts(name="Age", type="string", format="date", priority=1, description="a\nb")
    kinds = [
        KindColumns(group, kind, (age,)) for group, kind in (("core", "Event"), ("autoscaling", "Scale"), ("x", "Y"))
    ]
    assert list(parse_columns_facts(render_columns_facts(kinds))) == kinds
    column = "  Age | string:date wide | a\\nb\n"
    assert render_columns(kinds, list(resource_rows(DISCOVERY))) == (
        f"/events events.k8s.io/events\n{column}\n/scale\n{column}"
    )


def test_messages_render_to_lines() -> None:
    """Only stable versions are rendered, and the label of a field is a mark."""
    field = [1, "a", "map<string, string>", "map"]
    messages = {"b.v1.M": [field, [2, "c", "string", "repeated"]], "b.v1beta1.M": [field], "b.v1alpha1.M": [field]}
    assert render_messages(messages) == "message b.v1.M\n  1 a map<string,string> map\n  2 c string *\n"


def test_lines_of_types() -> None:
    """Types, list keys and defaults stand in a line; a type without properties has its schema as it is."""
    text = {"type": "string", "enum": ["A", "B C"], "default": "A"}
    items = {
        "type": "array",
        "items": {"allOf": [{"$ref": "#/components/schemas/a.v1.I"}]},
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k", "l"],
        "x-kubernetes-patch-strategy": "merge",
        "x-kubernetes-patch-merge-key": "k",
    }
    kind = [{"group": "a.io", "version": "v1", "kind": "T"}]
    properties = {"s": text, "l": items, "m": {"type": "object", "additionalProperties": {}}}
    schema = {"properties": properties, "required": ["s"], "x-kubernetes-group-version-kind": kind}
    assert list(type_lines("a.v1.T", schema)) == [
        "type a.v1.T kind=a.io/v1/T",
        '  s string(A|B C) required default="A"',
        "  l [a.v1.I] list=map merge=k keys=k,l patch=merge",
        "  m {any}",
    ]
    assert list(type_lines("a.v1.Q", {"type": "string"})) == ['type a.v1.Q raw={"type":"string"}']


def policy() -> list[JsonObject]:
    """The objects of today's table, without the managedFields that the loader adds."""
    return sorted_policy(
        {**item, "metadata": {key: value for key, value in item["metadata"].items() if key != "managedFields"}}
        for _, item in bootstrap_policy()
    )


def test_rbac_goes_round() -> None:
    """The committed table, read and written again, has the same lines."""
    lines = render_rbac(policy()).splitlines()
    assert [line for line in lines if line.startswith("controller job-")] == ["controller job-controller"]
    assert render_rbac(policy()) == "\n".join(lines) + "\n"
    assert len(policy()) > 130


def test_rbac_marks_that_have_no_place() -> None:
    """An object with a label that the table cannot express is an error."""
    item = policy()[0]
    item = {**item, "metadata": {**item["metadata"], "labels": {"a": "b"}}}
    with pytest.raises(ValueError, match="cannot express"):
        render_rbac([item])


def test_headers_of_tables() -> None:
    """A header tells the maker, the source and the version, and the reader of tables leaves it out."""
    header = Provenance("tools/x.py", ["a.json", "b.json"], "v1.2.3").header()
    assert "make generate" in header
    assert "do not edit" in header
    assert "a.json, b.json" in header
    assert version_of(header) == "v1.2.3"
    assert without_header(f"{header}# a comment of the header, too\nline\n# not of the header\n") == (
        "line\n# not of the header\n"
    )
    with pytest.raises(ValueError, match="no header"):
        version_of("line\n")
