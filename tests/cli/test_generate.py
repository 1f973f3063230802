"""``opsdk generate models``: source code that imports and works."""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from opsdk.apimachinery.codec import decode, encode
from opsdk.apimachinery.kinds import kind_of
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.cli.__main__ import main
from opsdk.cli.generate.cluster import read_schemas
from opsdk.cli.generate.names import camel, module_of, pascal, snake
from opsdk.cli.generate.types import TypeGenerator
from opsdk.errors import UsageError
from opsdk.http.server.application import asgi
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import HttpResponse, json_response
from opsdk.rest.config import RestConfig
from opsdk.structured_merge.value import JsonObject

META = {"allOf": [{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}]}
CERTIFICATE: JsonObject = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": META,
        "spec": {
            "type": "object",
            "required": ["secretName", "issuerRef"],
            "properties": {
                "secretName": {"type": "string"},
                "issuerRef": {
                    "type": "object",
                    "required": ["name"],
                    "properties": {"name": {"type": "string"}, "kind": {"type": "string", "default": "Issuer"}},
                },
                "dnsNames": {"type": "array", "items": {"type": "string"}},
                "ipAddresses": {"type": "array", "items": {"type": "string"}},
                "duration": {"type": "string"},
                "isCA": {"type": "boolean"},
                "from": {"type": "integer", "format": "int32"},
                "str": {"type": "string"},
                "port": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
                "keystores": {
                    "type": "object",
                    "properties": {
                        "jks": {
                            "type": "object",
                            "required": ["create"],
                            "properties": {
                                "create": {"type": "boolean"},
                                "issuerRef": {"type": "object", "properties": {"other": {"type": "number"}}},
                            },
                        }
                    },
                },
                "templates": {
                    "type": "array",
                    "items": {"type": "object", "required": ["path"], "properties": {"path": {"type": "string"}}},
                },
                "byName": {
                    "type": "object",
                    "additionalProperties": {"type": "object", "properties": {"x": {"type": "integer"}}},
                },
                "selector": {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector"},
                "env": {"type": "array", "items": {"$ref": "#/components/schemas/io.k8s.api.core.v1.EnvVar"}},
                "raw": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "anything": {},
                "$odd-name": {"type": "string"},
            },
        },
        "status": {
            "type": "object",
            "properties": {
                "notAfter": {"type": "string", "format": "date-time"},
                "conditions": {
                    "type": "array",
                    "items": {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.Condition"},
                },
            },
        },
    },
    "x-kubernetes-group-version-kind": [{"group": "cert-manager.io", "version": "v1", "kind": "Certificate"}],
}
LIST = {
    "type": "object",
    "properties": {
        "items": {"type": "array"},
        "metadata": {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"},
    },
}
BUILT_IN = {"type": "object", "properties": {"name": {"type": "string"}, "value": {"type": "string"}}}
SCHEMAS = {
    "io.cert-manager.v1.Certificate": CERTIFICATE,
    "io.cert-manager.v1.CertificateList": LIST,
    "io.k8s.api.core.v1.EnvVar": BUILT_IN,
}


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module generated for Certificate, imported."""
    document = tmp_path / "certs.json"
    document.write_text(json.dumps({"components": {"schemas": SCHEMAS}}))
    out = tmp_path / "made_apis"
    arguments = ["generate", "models", "--openapi", str(document), "--folder", str(out), "--package", "made_apis"]
    assert main(arguments) == 0
    (out / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("made_apis.cert_manager_io.v1")
    for name in [n for n in sys.modules if n.startswith("made_apis")]:
        del sys.modules[name]


def test_a_custom_kind_with_nested_objects(made: Any) -> None:
    """The module imports; required fields are required; nested objects are classes of their own; all goes round."""
    cert = made.Certificate(
        metadata=ObjectMeta(name="a", namespace="ns"),
        spec=made.CertificateSpec(
            secret_name="s",
            issuer_ref=made.CertificateSpecIssuerRef(name="ca"),
            dns_names=["x.dev"],
            is_ca=True,
            from_=5,
            str_="x",
            port="http",
            keystores=made.CertificateSpecKeystores(
                jks=made.CertificateSpecKeystoresJks(
                    create=True, issuer_ref=made.CertificateSpecKeystoresJksIssuerRef(other=1.5)
                )
            ),
            templates=[made.CertificateSpecTemplatesItem(path="/")],
            by_name={"k": made.CertificateSpecByNameValue(x=1)},
            anything=[1, None],
            raw={"x": {"y": 1}},
            odd_name="o",
        ),
    )
    tree = msgspec.json.decode(encode(cert))
    assert (tree["apiVersion"], tree["kind"]) == ("cert-manager.io/v1", "Certificate")
    spec = tree["spec"]
    assert spec["issuerRef"] == {"name": "ca"}
    assert (spec["isCA"], spec["from"], spec["str"], spec["$odd-name"]) == (True, 5, "x", "o")
    assert spec["keystores"]["jks"]["issuerRef"] == {"other": 1.5}
    assert decode(encode(cert), kind_of(made.Certificate)) == cert
    with pytest.raises(TypeError, match="secret_name"):
        made.CertificateSpec(issuer_ref=made.CertificateSpecIssuerRef(name="ca"))


def test_names_that_meet() -> None:
    """Two attributes of one name, or a nested object named like another schema, stay two things."""
    text = {"type": "string"}
    nested = {"type": "object", "properties": {"inner": text}}
    schemas = {
        "dev.x.v1.Foo": {
            "type": "object",
            "properties": {"spec": nested, "fooBar": text, "foo_bar": text, "gvk": text},
        },
        "dev.x.v1.FooSpec": {"type": "object", "properties": {"outer": text}},
    }
    tree: JsonObject = {}
    source = TypeGenerator(schemas, package="x", source="s").files()["x_dev/v1.py"]
    exec(compile(source.replace("from __future__ import annotations", ""), "v1.py", "exec"), tree)
    foo = tree["Foo"](spec=tree["FooSpec_"](inner="i"), foo_bar="a", foo_bar_="b", gvk_="c")
    assert msgspec.to_builtins(foo) == {"spec": {"inner": "i"}, "fooBar": "a", "foo_bar": "b", "gvk": "c"}
    assert msgspec.to_builtins(tree["FooSpec"](outer="o")) == {"outer": "o"}


def test_the_output_says_where_it_comes_from(made: Any, tmp_path: Path) -> None:
    """Each file has a head that says so; lists and built-in kinds are not made again."""
    files = sorted(p.relative_to(tmp_path / "made_apis").as_posix() for p in (tmp_path / "made_apis").rglob("*.py"))
    assert files == ["__init__.py", "cert_manager_io/__init__.py", "cert_manager_io/v1.py"]
    assert "Generated by ``opsdk generate models`` from certs.json" in made.__doc__
    assert not hasattr(made, "CertificateList")


def test_the_same_input_gives_the_same_files() -> None:
    """The generated files do not depend on the order of the schemas."""
    one = TypeGenerator(SCHEMAS, package="x", source="s").files()
    two = TypeGenerator(dict(reversed(SCHEMAS.items())), package="x", source="s").files()
    assert one == two


def test_mistakes_are_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No input, a file that is not a document, a document without new kinds: one line, status 1."""
    out = ["--folder", str(tmp_path), "--package", "x"]
    bad = tmp_path / "bad.json"
    bad.write_text("[]")
    old = tmp_path / "old.json"
    old.write_text(json.dumps({"components": {"schemas": {"io.k8s.api.core.v1.EnvVar": BUILT_IN}}}))
    for arguments, words in (
        ([], "pass exactly one source"),
        (["--openapi", str(bad)], "not an OpenAPI v3 document"),
        (["--openapi", str(tmp_path / "missing.json")], "not an OpenAPI v3 document"),
        (["--openapi", str(old)], "has no kinds besides"),
        (["--openapi", str(old), "--cluster"], "pass exactly one source"),
    ):
        assert main(["generate", "models", *arguments, *out]) == 1
        error = capsys.readouterr().err
        assert error.startswith("opsdk: ")
        assert words in error


async def test_schemas_are_read_from_a_live_server() -> None:
    """Schemas of all or some groups are read; the error for an unknown group lists the known ones."""
    environment = pytest.importorskip("envtest.environment", reason="needs opsdk[envtest]")
    async with environment.Environment() as env:
        everything = await read_schemas(env.config)
        assert {"io.k8s.api.core.v1.Pod", "io.k8s.api.apps.v1.Deployment"} <= set(everything)
        some = await read_schemas(env.config, ["apps"])
        assert "io.k8s.api.apps.v1.Deployment" in some
        assert "io.k8s.api.batch.v1.Job" not in some
        assert "io.k8s.api.core.v1.ConfigMap" in await read_schemas(env.config, ["core"])
        with pytest.raises(UsageError, match=r"no group 'nothing.dev': choose one of .*apps"):
            await read_schemas(env.config, ["nothing.dev"])


async def test_a_crd_of_a_live_server_becomes_a_class(tmp_path: Path) -> None:
    """The published schema of a CRD becomes a class."""
    environment = pytest.importorskip("envtest.environment", reason="needs opsdk[envtest]")
    import asyncio

    from opsdk.apimachinery.object import Unstructured
    from opsdk.cluster.cluster import Cluster

    schema = {k: v for k, v in CERTIFICATE.items() if not k.startswith("x-")}
    spec = {k: v for k, v in CERTIFICATE["properties"]["spec"]["properties"].items() if "$ref" not in json.dumps(v)}
    schema["properties"] = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
        "spec": {
            **CERTIFICATE["properties"]["spec"],
            "properties": {k: v for k, v in spec.items() if v and k[0] != "$"},
        },
    }
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "certificates.certs.example.com"},
        "spec": {
            "group": "certs.example.com",
            "scope": "Namespaced",
            "names": {"plural": "certificates", "singular": "certificate", "kind": "Certificate"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }
    async with environment.Environment() as env, Cluster(env.config) as target:
        await target.uncached.create(Unstructured.from_tree(crd))
        await asyncio.sleep(5)
        schemas = await read_schemas(env.config, ["certs.example.com"])
    generator = TypeGenerator(schemas, package="x", source="a live server")
    generator.files()
    assert [gvk for gvk in generator.kinds() if gvk[0] == "certs.example.com"] == [
        ("certs.example.com", "v1", "Certificate")
    ]


async def test_one_document_is_read_for_each_group_version() -> None:
    """One OpenAPI document is read for each group version, in order, at the URL of the server."""
    paths = {
        ".well-known/openid-configuration": {},
        "api": {},
        "api/v1": {"serverRelativeURL": "/openapi/v3/api/v1?hash=A%3D"},
        "apis": {},
        "apis/apps": {},
        "apis/apps/v1": {"serverRelativeURL": "/openapi/v3/apis/apps/v1"},
        "apis/batch/v1": {},
        "version": {},
    }

    async def requested(*groups: str) -> list[str]:
        targets: list[str] = []

        async def respond(request: HttpRequest) -> HttpResponse:
            targets.append(f"{request.path}?{request.query.raw}".rstrip("?"))
            return json_response({"paths": paths} if request.path == "/openapi/v3" else {})

        await read_schemas(RestConfig(app=asgi(respond)), groups)
        return targets[1:]

    assert await requested("apps", "core") == ["/openapi/v3/apis/apps/v1", "/openapi/v3/api/v1?hash=A%3D"]
    assert len(await requested()) == 3
    assert await requested("batch") == ["/openapi/v3/apis/batch/v1"]


@pytest.mark.parametrize(
    ("wire", "attribute"),
    [
        ("clusterIPs", "cluster_ips"),
        ("podIP", "pod_ip"),
        ("nonResourceURLs", "non_resource_urls"),
        ("$ref", "ref"),
        ("from", "from_"),
        ("int", "int_"),
        ("3scale", "field_3scale"),
        ("x-kubernetes-map-type", "x_kubernetes_map_type"),
        ("hostPID", "host_pid"),
        ("a.b/c", "a_b_c"),
        ("_", "field_"),
    ],
)
def test_names_become_pythons(wire: str, attribute: str) -> None:
    """An identifier that is not a keyword, whatever the wire's name."""
    assert snake(wire) == attribute
    assert attribute.isidentifier()


def test_names_become_python_names() -> None:
    """Attribute, class and module names follow from msgspec's rules, paths and schema names."""
    assert camel("pod_ip") == "podIp"
    assert pascal("CertificateSpec", "issuerRef", "item") == "CertificateSpecIssuerRefItem"
    assert module_of("io.k8s.api.core.v1.Pod") == ("core", "v1", "Pod")
    assert module_of("com.example.certs.v1beta1.Certificate") == ("certs_example_com", "v1beta1", "Certificate")
