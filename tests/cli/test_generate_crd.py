"""``opsdk generate crd`` and ``opsdk generate models --crd``."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest
import yaml
from crd_shapes import SPECS, Conditions, Enums, Full, FullBeta, Int32, Strings, kind_with

from opsdk.apimachinery.crd import Rule, crd_for
from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.apimachinery.meta import Condition
from opsdk.apimachinery.model import Model
from opsdk.apimachinery.object import Object
from opsdk.apimachinery.yaml_text import to_yaml
from opsdk.cli.__main__ import main
from opsdk.cli.generate.cluster import read_definitions, read_schemas
from opsdk.cli.generate.definitions import check_accepted
from opsdk.cli.generate.models import model_files
from opsdk.cli.generate.openapi import inline_definitions
from opsdk.errors import ConfigError, UsageError
from opsdk.structured_merge.value import JsonObject

definitions = pytest.importorskip("opsdk.cli.generate.definitions", reason="needs opsdk[envtest]")
pytest.importorskip("re2", reason="needs opsdk[envtest]")


GVK = "x-kubernetes-group-version-kind"


def models_of(definition: JsonObject) -> dict[str, Any]:
    """The classes made from a definition as it stands in a file, by version."""
    tree = yaml.safe_load(to_yaml([definition]))
    files = model_files([tree], source="a test")
    created = {Path(path).stem: source for path, source in files.items() if not path.endswith("__init__.py")}
    classes = {}
    for version, source in created.items():
        name = f"models_of_{definition['spec']['names']['plural']}_{version}"
        module = types.ModuleType(name)
        sys.modules[name] = module  # msgspec resolves annotations in it
        exec(compile(source, name, "exec"), module.__dict__)
        classes[version] = module
    return classes


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.__name__)
def test_each_shape_goes_round(spec: type) -> None:
    """The class made from a definition has the same definition."""
    (definition,) = definitions.definitions_of([kind_with(spec)])
    kind = getattr(models_of(definition)["v1"], spec.__name__)
    assert crd_for(kind) == definition
    assert to_yaml([crd_for(kind)]) == to_yaml([definition])


def test_all_declarations_go_round() -> None:
    """Names, versions, scale, columns, selectable fields and rules too."""
    (definition,) = definitions.definitions_of([FullBeta, Full])
    modules = models_of(definition)
    assert crd_for(modules["v1beta1"].Full, modules["v1"].Full) == definition


def test_the_classes_of_a_definition() -> None:
    """Enumerations become Enums, conditions the class Condition, bounds Meta."""
    enums = models_of(crd_for(kind_with(Enums)))["v1"]
    assert [member.value for member in enums.EnumsSpecSize] == ["S", "L"]
    conditions = models_of(crd_for(kind_with(Conditions)))["v1"]
    assert conditions.Condition is Condition
    strings = model_files([crd_for(kind_with(Strings))], source="a test")["shapes_opsdk_dev/v1.py"]
    assert "name: Annotated[str, msgspec.Meta(min_length=1, max_length=3, pattern='^[a-z]+$')]" in strings


_BOUNDED_CONDITIONS = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "type": {"type": "string", "maxLength": 316},
            "status": {"type": "string", "enum": ["True", "False"]},
            "reason": {"type": "string"},
            "message": {"type": "string"},
            "lastTransitionTime": {"type": "string"},
        },
        "required": ["status", "type"],
    },
}
"""Conditions with other bounds than the class, in an atomic list."""


def test_a_foreign_definition_goes_round() -> None:
    """Forms that crd_for does not write by itself are kept as keywords."""
    text = {"type": "string"}
    schema = {
        "type": "object",
        "properties": {
            "apiVersion": text,
            "kind": text,
            "metadata": {"type": "object"},
            "data": {"type": "object", "additionalProperties": text, "minProperties": 1, "description": "a\n\nb"},
            "spec": {
                "type": "object",
                "oneOf": [{"required": ["a"]}, {"required": ["listType"]}],
                "properties": {
                    "a": {"type": "string", "format": "hostname", "title": "A"},
                    "listType": {"type": "integer", "maximum": 3, "exclusiveMaximum": True},
                    "empty": {"type": "object"},
                    "mode": {"type": "string", "enum": ["", "fast"], "nullable": True},
                    "map": {"type": "object", "additionalProperties": {"x-kubernetes-preserve-unknown-fields": True}},
                    "default": {"type": "array", "items": {"type": "integer"}, "default": [1]},
                    "pattern": {"type": "string", "pattern": "^\\p{L}$"},
                    "secrets": {
                        "type": "array",
                        "items": {"type": "object", "properties": {"name": {"type": "string", "default": ""}}},
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                    },
                },
            },
            "status": {"type": "object", "properties": {"conditions": _BOUNDED_CONDITIONS}},
        },
        "required": ["data"],
    }
    definition = crd_for(kind_with(Strings))
    definition["spec"]["versions"][0] |= {"schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}}
    models = models_of(definition)["v1"]
    assert crd_for(models.Strings) == definition
    assert models.Condition is Condition


def test_the_command_prints_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command groups versions by kind, sorts keys, repeats equal bytes, and keeps edited files."""
    classes = ["crd_shapes:FullBeta", "crd_shapes:Full"]
    assert main(["generate", "crd", *classes]) == 0
    printed = capsys.readouterr().out
    assert list(yaml.safe_load_all(printed)) == [crd_for(FullBeta, Full)]
    assert printed.startswith("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n")
    for _ in range(2):
        assert main(["generate", "crd", *classes, "--folder", str(tmp_path)]) == 0
    (file,) = tmp_path.iterdir()
    assert file.name == "shapes.opsdk.dev_fulls.yaml"
    assert file.read_text().partition("\n")[2] == printed
    file.write_text(file.read_text() + "# mine\n")
    assert main(["generate", "crd", *classes, "--folder", str(tmp_path)]) == 1
    assert "was edited, or another tool generated it" in capsys.readouterr().err
    assert main(["generate", "crd", *classes, "--folder", str(tmp_path), "--force"]) == 0
    out = tmp_path / "apis"
    assert main(["generate", "models", "--crd", str(file), "--folder", str(out)]) == 0
    assert sorted(path.name for path in (out / "shapes_opsdk_dev").iterdir()) == ["__init__.py", "v1.py", "v1beta1.py"]


def test_an_older_server_is_named_with_what_it_lacks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The status is 1, and nothing is written; definitions that the server accepts are written."""
    classes = ["crd_shapes:Full", "--folder", str(tmp_path)]
    assert main(["generate", "crd", *classes, "--for", "1.30"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].endswith("Kubernetes 1.30 does not accept:")
    assert lines[1:] == ["  fulls.shapes.opsdk.dev: v1.selectableFields: servers know this field since Kubernetes 1.31"]
    assert not list(tmp_path.iterdir())
    assert main(["generate", "crd", *classes, "--for", "v1.31.2"]) == 0
    assert len(list(tmp_path.iterdir())) == 1


def test_a_policy_is_of_a_kind_that_the_server_has() -> None:
    """The kinds became stable at different times."""
    kinds = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicy")
    policies = [{"kind": kind, "metadata": {"name": f"of-{kind}"}} for kind in kinds]
    check_accepted([], "1.36", policies)
    with pytest.raises(UsageError, match=r"1\.35 does not accept:\n  of-Mutating.* kind Mutating.* 1\.36$"):
        check_accepted([], "1.35", policies)
    with pytest.raises(UsageError, match=r"of-ValidatingAdmissionPolicy: .* since Kubernetes 1\.30\n  of-Mutating"):
        check_accepted([], "1.29", policies)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("self.replica > 1", "undefined field 'replica'"),
        ("self.replicas >", "Syntax error"),
        ("self.replicas + 1", "cel expression must evaluate to a bool"),
    ],
)
def test_rules_are_compiled(rule: str, message: str) -> None:
    """A rule that the server would refuse is refused here, with its path."""

    class Wrong(Int32, kw_only=True):
        rules = (Rule(rule),)

    with pytest.raises(UsageError, match=rf"(?s)v1\.properties\[spec\]\.x-kubernetes-validations\[0\].*{message}"):
        definitions.definitions_of([kind_with(Wrong)])


def test_mistakes_are_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Classes that are missing or not kinds, and files without definitions: one line, status 1."""
    file = tmp_path / "x.yaml"
    file.write_text("kind: Pod\n")
    for arguments, words in (
        (["crd", "nothing.dev:Thing"], "cannot be loaded, write MODULE:"),
        (["crd", "crd_shapes:Nothing"], "cannot be loaded, write MODULE:"),
        (["crd", "crd_shapes"], "cannot be loaded, write MODULE:"),
        (["crd", "crd_shapes:Strings"], "is not a kind"),
        (["models", "--crd", str(file), "--folder", "x"], "has no CustomResourceDefinition that a server takes"),
        (["models", "--crd", str(tmp_path / "y"), "--folder", "x"], "cannot be read"),
        (["models", "--crd", str(file), "--cluster", "--folder", "x"], "pass exactly one source"),
        (["models", "--openapi", str(file), "--folder", "x"], "not an OpenAPI v3 document"),
    ):
        assert main(["generate", *arguments]) == 1
        error = capsys.readouterr().err
        assert error.startswith("opsdk: ")
        assert words in error


def test_a_class_that_is_no_kind_has_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error is one line that begins with file and line of the class, with or without a base class of opsdk."""
    source = tmp_path / "no_kinds.py"
    source.write_text("import opsdk\nclass Plain: ...\nclass NoGvk(opsdk.Object[opsdk.Model, None]): ...\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "no_kinds", raising=False)
    for name, line, advice in (("Plain", 2, "derives from opsdk.Object"), ("NoGvk", 3, "set gvk = ")):
        assert main(["generate", "crd", f"no_kinds:{name}"]) == 1
        error = capsys.readouterr().err
        assert error.startswith(f"opsdk: {source}:{line}: 'no_kinds:{name}' is not a kind: ")
        assert advice in error
        assert error.count("\n") == 1


class NewPattern(Model):
    """A model with a pattern that nothing has compiled before."""

    text: Annotated[str, msgspec.Meta(pattern="^of no other test$")]


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the regular expressions of opsdk[apiserver] the error says what to install."""
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(ConfigError, match=r"needs re2: pip install 'opsdk\[apiserver\]'$"):
        definitions.definitions_of([kind_with(NewPattern)])


class Unused(Object[Model, None]):
    """A kind whose spec has no fields."""

    gvk = GroupVersionKind("shapes.opsdk.dev", "v1", "Unused")


def test_a_spec_without_fields_goes_round() -> None:
    """A spec without fields has no class, and survives a round trip."""
    definition = crd_for(Unused)
    assert crd_for(models_of(definition)["v1"].Unused) == definition


async def test_definitions_of_a_live_server_give_equal_classes() -> None:
    """Definitions of a server give the same classes as files, for all groups or some."""
    environment = pytest.importorskip("envtest.environment", reason="needs opsdk[envtest]")
    definition = crd_for(kind_with(Enums))
    async with environment.Environment(crds=[definition]) as env:
        (published,) = await read_definitions(env.config)
        assert await read_definitions(env.config, ["other.dev"]) == []
        schemas = await read_schemas(env.config, ["shapes.opsdk.dev"])
    assert crd_for(models_of(published)["v1"].Enums) == definition
    inline, _ = inline_definitions(schemas)
    again = crd_for(models_of(inline[0])["v1"].Enums)
    assert again["spec"]["versions"] == definition["spec"]["versions"]


def test_openapi_documents_give_the_same_classes(tmp_path: Path) -> None:
    """A custom resource in an OpenAPI document keeps its enumerations and bounds."""
    schema = crd_for(kind_with(Strings))["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    gvk = {"group": "shapes.opsdk.dev", "version": "v1", "kind": "Strings"}
    document = {"components": {"schemas": {"dev.opsdk.shapes.v1.Strings": {**schema, GVK: [gvk]}}}}
    file = tmp_path / "shapes.json"
    file.write_text(json.dumps(document))
    assert main(["generate", "models", "--openapi", str(file), "--folder", str(tmp_path / "apis")]) == 0
    assert "pattern='^[a-z]+$'" in (tmp_path / "apis" / "shapes_opsdk_dev" / "v1.py").read_text()
