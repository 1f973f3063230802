"""What is read from the source files of Kubernetes: structs, printer columns, RBAC objects."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.generate.column_facts import ColumnFacts, KindColumns
from tools.generate.extract.bootstrap_policy import parse_list
from tools.generate.extract.go_source import GoField, parse_go
from tools.generate.extract.go_structs import read_structs
from tools.generate.extract.printers import parse_docs, parse_printers, read_columns
from tools.generate.struct_facts import StructField, go_type_of, parse_structs, render_structs

TYPES = """package v1

import (
\tmetav1 "k8s.io/apimachinery/pkg/apis/meta/v1" // the alias everybody uses
\t"k8s.io/apimachinery/pkg/types"
)

/* type Hidden struct {
*/

// Phase has a comment: type Wrong string
type Phase string

type Extra []string // with a comment

type Alias = Phase

type Thing struct {
\tmetav1.TypeMeta `json:",inline"`
\t// Not a field: `json:"wrong"`
\tmetav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

\tPhase *Phase `json:"phase,omitempty"`
\tUID   types.UID `protobuf:"bytes,2" json:"uid"`
\tSource `json:",inline"`
\tHidden string `json:"-"`
\tWithoutTag string
}

type Source struct {
\tExtra map[string]Extra `json:"extra,omitempty,omitzero"`
}

type Unused struct {
\tA string `json:"a"`
}
"""
META = """package v1

type TypeMeta struct {
\tKind string `json:"kind,omitempty"`
}

type ObjectMeta struct {
\tCreationTimestamp Time `json:"creationTimestamp,omitempty,omitzero"`
}
"""


def test_declarations_of_a_file() -> None:
    """Imports, named types and fields with a tag are read; comments, aliases and bare fields are not."""
    file = parse_go(TYPES)
    assert file.imports == {"metav1": "k8s.io/apimachinery/pkg/apis/meta/v1", "types": "k8s.io/apimachinery/pkg/types"}
    assert file.named == {"Phase": "string", "Extra": "[]string"}
    assert list(file.structs) == ["Thing", "Source", "Unused"]
    assert file.structs["Thing"][:3] == (
        GoField("", "metav1.TypeMeta", ",inline"),
        GoField("", "metav1.ObjectMeta", "metadata,omitempty"),
        GoField("Phase", "*Phase", "phase,omitempty"),
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Some files of a checkout of Kubernetes."""
    texts = {
        "staging/src/k8s.io/api/x/v1/types.go": TYPES,
        "staging/src/k8s.io/api/x/v1/types_test.go": "package v1\n\ntype Phase int\n",
        "staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/types.go": META,
        "staging/src/k8s.io/apimachinery/pkg/types/uid.go": "package types\n\ntype UID string\n",
    }
    for path, text in texts.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def test_structs_that_a_schema_reaches(checkout: Path) -> None:
    """Types of other packages come along, types that nothing uses do not."""
    packages = read_structs(checkout, ["io.k8s.api.x.v1.Thing"])
    assert list(packages) == [
        "k8s.io/api/x/v1",
        "k8s.io/apimachinery/pkg/apis/meta/v1",
        "k8s.io/apimachinery/pkg/types",
    ]
    thing = packages["k8s.io/api/x/v1"]
    assert (list(thing.structs), dict(thing.named)) == (["Source", "Thing"], {"Extra": "[]string", "Phase": "string"})
    assert [field.name for field in thing.structs["Thing"]] == ["", "metadata", "phase", "uid", ""]
    assert thing.structs["Source"] == (StructField("extra", "map[string]Extra", frozenset({"omitempty", "omitzero"})),)
    assert parse_structs(render_structs(packages)) == packages


def test_schemas_of_unknown_modules() -> None:
    """A schema that no known Go module declares is an error with its name."""
    with pytest.raises(ValueError, match=r"com\.example\.v1\.A"):
        go_type_of("com.example.v1.A")


PRINTERS = """package internalversion

import (
\tapiv1 "k8s.io/api/core/v1"
\tmetav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
\tapi "k8s.io/kubernetes/pkg/apis/core"
)

func AddHandlers(h printers.PrintHandler) {
\tpodColumns := []metav1.TableColumnDefinition{
\t\t{Name: "Name", Type: "string", Format: "name", Description: metav1.ObjectMeta{}.SwaggerDoc()["name"]},
\t\t{Name: "Port(s)", Type: "string", Description: "A \\"text\\"."},
\t}
\tpodColumns = append(podColumns, []metav1.TableColumnDefinition{
\t\t{Name: "IP", Type: "string", Priority: 1, Description: apiv1.PodStatus{}.SwaggerDoc()["podIP"]},
\t}...)
\t_ = h.TableHandler(podColumns, printPod)
\tstatusColumns := []metav1.TableColumnDefinition{
\t\t{Name: "Status", Type: "string", Description: metav1.Status{}.SwaggerDoc()["status"]},
\t}
\t_ = h.TableHandler(statusColumns, printStatus)
}

func printPod(pod *api.Pod, options printers.GenerateOptions) ([]metav1.TableRow, error) {
}

func printStatus(obj *metav1.Status, options printers.GenerateOptions) ([]metav1.TableRow, error) {
}
"""
AGGREGATOR = """package etcd

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

var swaggerMetadataDescriptions = metav1.ObjectMeta{}.SwaggerDoc()

\t\t\t{Name: "Name", Type: "string", Format: "name", Description: swaggerMetadataDescriptions["name"]},
"""
DOCS = 'package v1\n\nvar map_%s = map[string]string{\n\t"": "Whole.",\n\t"%s":   "Has a \\n break.",\n}\n'


def test_columns_of_printers(checkout: Path) -> None:
    """A list can grow; a description is a text or a field's; kinds without internal types are left out."""
    texts = {
        "pkg/printers/internalversion/printers.go": PRINTERS,
        "staging/src/k8s.io/kube-aggregator/pkg/registry/apiservice/etcd/etcd.go": AGGREGATOR,
        "staging/src/k8s.io/api/core/v1/types_swagger_doc_generated.go": DOCS % ("PodStatus", "podIP"),
        "staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/types_swagger_doc_generated.go": DOCS
        % ("ObjectMeta", "name"),
    }
    for path, text in texts.items():
        (checkout / path).parent.mkdir(parents=True, exist_ok=True)
        (checkout / path).write_text(text)
    name = ColumnFacts(name="Name", type="string", format="name", description="Has a \n break.")
    assert list(read_columns(checkout)) == [
        KindColumns(
            "core",
            "Pod",
            (
                name,
                ColumnFacts(name="Port(s)", type="string", description='A "text".'),
                ColumnFacts(name="IP", type="string", priority=1, description="Has a \n break."),
            ),
        ),
        KindColumns("apiregistration", "APIService", (name,)),
    ]


def test_descriptions_of_unknown_form(checkout: Path) -> None:
    """An expression that is not understood is an error, not an empty description."""
    text = PRINTERS.replace('"A \\"text\\"."', "describe(pod)")
    (checkout / "pkg/printers/internalversion").mkdir(parents=True)
    (checkout / "pkg/printers/internalversion/printers.go").write_text(text)
    docs = checkout / "staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/types_swagger_doc_generated.go"
    docs.write_text(DOCS % ("ObjectMeta", "name"))
    with pytest.raises(ValueError, match=r"no known form: describe\(pod\)"):
        list(read_columns(checkout))
    assert [kind.kind for kind in parse_printers(PRINTERS, lambda _: lambda text: text)] == ["Pod"]


def test_descriptions_of_fields() -> None:
    """Every map of the file is read, with Go's escapes."""
    assert parse_docs(DOCS % ("A", "b")) == {"A": {"": "Whole.", "b": "Has a \n break."}}


def test_rbac_objects_of_a_list() -> None:
    """An item loses the creation timestamp, nothing else."""
    text = (
        "kind: List\nitems:\n- kind: Role\n  metadata: {name: a, namespace: b, creationTimestamp: null}\n  rules: []\n"
    )
    assert list(parse_list(text)) == [{"kind": "Role", "metadata": {"name": "a", "namespace": "b"}, "rules": []}]
