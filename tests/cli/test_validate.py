"""``opsdk validate``: objects in files, without a server process."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from opsdk.apimachinery.serializer.yaml_documents import read_located_documents
from opsdk.cli.__main__ import main
from opsdk.cli.validate import built_in, command
from opsdk.cli.validate.documents import read_documents
from opsdk.errors import UsageError

OPERATOR = '''
from typing import Annotated

from msgspec import Meta
from opsdk import Context, GroupVersionKind, Model, Object, Operator
from opsdk.apimachinery.crd import Rule, validations


class PierSpec(Model, kw_only=True):
    """A size and a berth."""

    size: Annotated[int, Meta(ge=1, le=9)] = 1
    berth: Annotated[str, validations(Rule("self == oldSelf", message="berth is immutable"))] = "a"
    names: list[str] = []
    rules = (Rule("size(self.names) <= self.size", message="more names than size"),)


class Pier(Object[PierSpec, None]):
    """A kind."""

    gvk = GroupVersionKind("validate.opsdk.dev", "v1", "Pier")


operator = Operator("pier")


@operator.reconciler(Pier)
async def reconcile(pier: Pier, ctx: Context) -> None:
    """Do nothing."""
'''
GOOD = """\
apiVersion: validate.opsdk.dev/v1
kind: Pier
metadata: {name: a}
spec: {size: 2, names: [p, q]}
"""
Validate = Callable[..., tuple[int, str, str]]


@pytest.fixture
def validate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Validate]:
    """Run the command in the folder of an operator; return status, output and errors."""
    (tmp_path / "pier_operator.py").write_text(OPERATOR)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    def run(*arguments: str, **files: str) -> tuple[int, str, str]:
        for name, text in files.items():
            (tmp_path / f"{name}.yaml").write_text(text)
        capsys.readouterr()
        status = main(["validate", *arguments, "--operator", "pier_operator:operator"])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    yield run
    sys.modules.pop("pier_operator", None)


def test_valid_objects_end_with_zero(validate: Validate) -> None:
    """Defaults are set before the validation, and the number of objects is printed."""
    minimal = "apiVersion: validate.opsdk.dev/v1\nkind: Pier\nmetadata: {name: b}\nspec: {names: []}\n"
    assert validate("a.yaml", a=f"{GOOD}---\n# a comment\n{minimal}---\n") == (0, "2 objects checked, no errors\n", "")


def test_errors_have_file_and_line(validate: Validate) -> None:
    """Schema, rule, unknown field and name: each with the line of the field, or of the field above it."""
    text = f"""{GOOD}---
apiVersion: validate.opsdk.dev/v1
kind: Pier
metadata:
  name: B
spec:
  size: 12
  colour: red
---
apiVersion: validate.opsdk.dev/v1
kind: Pier
metadata:
  name: c
spec:
  size: 1
  names:
  - p
  - q
---
apiVersion: validate.opsdk.dev/v1
kind: Pier
metadata: {{name: d, labls: {{}}}}
"""
    status, output, _ = validate("a.yaml", a=text)
    assert status == 1
    lines = output.splitlines()
    assert [int(line.split(":")[1]) for line in lines] == [12, 9, 11, 10, 18, 26]
    assert lines[0].endswith("Pier B: spec.colour: unknown field")
    assert "Pier B: metadata.name: Invalid value" in lines[1]
    assert "spec.size" in lines[2]
    assert lines[4].endswith("Pier c: spec: Invalid value: more names than size")
    assert lines[5].endswith("Pier d: metadata.labls: unknown field")


def test_an_old_object_makes_an_update(validate: Validate) -> None:
    """Transition rules hold with ``--old`` only; values that were invalid before may stay."""
    new = GOOD.replace("size: 2", "size: 2, berth: b")
    assert validate("new.yaml", new=new, old=GOOD)[0] == 0
    status, output, _ = validate("new.yaml", "--old", "old.yaml")
    assert (status, output) == (1, 'new.yaml:4: Pier a: spec.berth: Invalid value: "b": berth is immutable\n')
    invalid = GOOD.replace("size: 2", "size: 99")
    assert validate("new.yaml", new=invalid)[0] == 1
    assert validate("new.yaml", "--old", "old.yaml", new=invalid, old=invalid)[0] == 0


def test_a_version_without_a_schema_is_an_error(validate: Validate) -> None:
    """The message lists the versions that the project has."""
    status, output, _ = validate("a.yaml", a=GOOD.replace("dev/v1", "dev/v2"))
    assert (status, output) == (1, "a.yaml:1: Pier a: apiVersion: Pier has no version v2, only v1\n")


def test_built_in_kinds_are_validated_by_envtest(validate: Validate, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unknown fields and invalid values have their lines; without envtest a note says what is not checked."""
    text = """\
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Service
  metadata: {name: a, namespace: shop}
  spec:
    ports:
    - port: 80
    - port: 99999
      name: b
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: a}
  dta: {}
"""
    status, output, errors = validate("a.yaml", a=text)
    assert (status, errors) == (1, "")
    assert [line.partition(": ")[0] for line in output.splitlines()] == [f"a.yaml:{n}" for n in (9, 10, 10, 15)]
    assert "Service shop/a: spec.ports[1].port: Invalid value: 99999" in output
    assert output.splitlines()[-1].endswith("ConfigMap a: dta: unknown field")
    monkeypatch.setattr(command, "can_validate", lambda: False)
    status, output, errors = validate("a.yaml")
    assert status == 0
    assert "objects of built-in kinds are not checked: pip install 'opsdk[envtest]'" in errors


MIGRATION = """\
apiVersion: storagemigration.k8s.io/v1
kind: StorageVersionMigration
metadata: {name: a}
spec: {resource: {group: apps, resource: deployments, size: 1}}
"""


@pytest.mark.parametrize(
    ("version", "finding"),
    [
        ("1.37", "spec.resource.size: unknown field"),
        ("v1.36.2", "apiVersion: Kubernetes 1.36 does not serve this kind; it is in 1.37"),
    ],
)
def test_the_chosen_version_validates(validate: Validate, version: str, finding: str) -> None:
    """A kind of another version is an error of its apiVersion."""
    status, printed, errors = validate("migration.yaml", "--kubernetes", version, migration=MIGRATION)
    assert (status, printed.count("\n"), errors) == (1, 1, "")
    assert printed.strip().endswith(finding)


def test_an_unknown_version_is_one_sentence(validate: Validate) -> None:
    """It has the versions that are known, also where only custom kinds are validated."""
    status, printed, errors = validate("good.yaml", "--kubernetes", "1.20", good=GOOD)
    assert (status, printed) == (1, "")
    assert errors.count("\n") == 1
    assert "Kubernetes 1.20 is older than the versions that envtest serves: give one of 1.35, 1.36, 1.37" in errors


def test_metadata_that_does_not_decode_is_an_error_of_its_object(validate: Validate) -> None:
    """Other objects of the file are checked. A date is a string, as in Go."""
    forms = ["{name: 5}", "5", "{name: a, labels: []}", "{name: a, labels: {a: 5}}", "{nam: a}", "{name: 2001-01-01}"]
    text = "---\n".join(f"apiVersion: v1\nkind: ConfigMap\nmetadata: {form}\n" for form in forms)
    status, output, errors = validate("a.yaml", a=text)
    assert (status, errors) == (1, "")
    assert [line.partition(": ")[0] for line in output.splitlines()] == [f"a.yaml:{n}" for n in (3, 7, 11, 15, 19)]


async def test_requests_wait_beside_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight objects are checked at a time, updates one by one; results keep the order, and progress counts."""

    async def slow(_: object, tree: dict[str, str], old: object, kubernetes: str) -> list[str]:
        await asyncio.sleep(1)
        return [tree["name"]]

    monkeypatch.setattr(built_in, "_problems", slow)
    counts: list[int] = []
    for old, seconds in ((None, 5), ({}, 40)):
        start = asyncio.get_running_loop().time()
        trees = [({"name": str(number)}, old) for number in range(40)]
        results = await built_in.built_in_problems(trees, kubernetes="1.36", progress=counts.append)
        assert results == [[str(number)] for number in range(40)]
        assert asyncio.get_running_loop().time() - start == pytest.approx(seconds, abs=0.9)
    assert counts == [*range(1, 41)] * 2


def test_kinds_of_others_are_named_and_no_error(validate: Validate) -> None:
    """A kind that neither the project nor Kubernetes defines is not checked."""
    status, _, errors = validate("a.yaml", a=GOOD.replace("validate.opsdk.dev", "cert-manager.io"))
    assert status == 0
    assert "cert-manager.io/v1 Pier is not checked: neither the project nor a file has a valid definition" in errors


DEFINITION = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: cranes.others.example.com}
spec:
  group: others.example.com
  scope: Namespaced
  names: {plural: cranes, kind: Crane}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {reach: {type: integer, maximum: 9}}}
"""
CRANE = "apiVersion: others.example.com/v1\nkind: Crane\nmetadata: {name: a}\nspec: {reach: 12}\n"


def test_definitions_in_the_files_count(validate: Validate) -> None:
    """An object of another project's kind is checked with the definition beside it, if the server accepts that."""
    status, output, _ = validate("a.yaml", "b.yaml", a=f"{CRANE}---\n{GOOD}", b=DEFINITION)
    assert status == 1
    assert output.startswith("a.yaml:4: Crane a: spec.reach: Invalid value: 12")
    assert len(output.splitlines()) == 1
    status, output, errors = validate("a.yaml", "b.yaml", a=CRANE, b=DEFINITION.replace("storage: true", "storage: 1"))
    assert status == 1
    assert "CustomResourceDefinition" in output
    assert "others.example.com/v1 Crane is not checked" in errors


def test_no_operator_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Outside a project, the files are enough."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.yaml").write_text(f"{DEFINITION}---\n{CRANE}")
    assert main(["validate", "a.yaml"]) == 1
    assert "spec.reach" in capsys.readouterr().out


def test_the_result_for_programs_is_json(validate: Validate) -> None:
    """Each error is a row with file, line, object, field and message."""
    status, output, _ = validate("a.yaml", "--output", "json", a=GOOD.replace("size: 2", "size: two"))
    row, skipped = json.loads(output)
    assert status == 1
    assert skipped["message"].endswith("correct the existing errors to complete validation")
    assert (row["file"], row["line"], row["object"], row["field"]) == ("a.yaml", 4, "Pier a", "spec.size")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1", r"a.yaml:2: did not find"),
        ("- 1\n", r"a.yaml:1: the document is not an object"),
        ("kind: Pier\n", r"a.yaml:1: the document is not an object: it needs apiVersion and kind"),
        ("", r"there are no objects in files"),
        (f"{GOOD}---\napiVersion: v1\nkind: List\nitems:\n- 5\n", r"a.yaml:9: the item is not an object"),
    ],
)
def test_text_that_is_no_object_is_an_error_with_its_line(validate: Validate, text: str, message: str) -> None:
    """Such a file ends the command with status 1 and one message."""
    status, output, errors = validate("a.yaml", a=text)
    assert (status, output) == (1, "")
    assert message in errors


def test_a_folder_stands_for_its_files(validate: Validate, tmp_path: Path) -> None:
    """Files with other suffixes are left out; a missing file is an error."""
    (tmp_path / "samples").mkdir()
    (tmp_path / "samples/a.yaml").write_text(GOOD)
    (tmp_path / "samples/README.md").write_text("no object")
    assert validate("samples")[:2] == (0, "1 object checked, no errors\n")
    assert "cannot be read" in validate("missing.yaml")[2]


KEYS = st.text("ab./", min_size=1, max_size=3).filter(lambda text: text.strip("./ ") == text)
TREES = st.recursive(
    st.integers(0, 9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(KEYS, TREES, min_size=1, max_size=3))
def test_the_line_of_a_field_is_the_line_of_its_key(tree: dict[str, object]) -> None:
    """In block style, the line of a field is the line of its key."""
    text = yaml.safe_dump(tree, default_flow_style=False)
    [document], places = read_located_documents(text.encode())
    lines = text.splitlines()
    for key in tree:
        if not any((other != key and other.startswith(f"{key}.")) or key.startswith(f"{other}.") for other in tree):
            assert lines[places.line_of(document.tree, f"[{key}]") - 1].startswith((key, f"'{key}'"))
    assert places.line_of(document.tree, "nothing.like.it") == 1


def test_a_document_may_begin_beside_its_separator() -> None:
    """Flow style after the dashes, comments before them, and carriage returns keep lines and values."""
    text = f"# first\r\n--- {{apiVersion: v1, kind: A}}\n--- # second\n\n{GOOD}...\n"
    first, second = read_documents("a.yaml", text.encode())
    assert (first.tree, first.line("kind")) == ({"apiVersion": "v1", "kind": "A"}, 2)
    assert (second.tree["kind"], second.line("spec.size")) == ("Pier", 8)
    with pytest.raises(UsageError, match=r"a\.yaml:2: "):
        list(read_documents("a.yaml", b"a: 1\nb: @\n"))
