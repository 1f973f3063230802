"""The container's table in pyproject.toml: what it says, and what is refused."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from opsdk.cli.package.settings import container_settings
from opsdk.cli.project import find_project
from opsdk.errors import UsageError


def test_all_sources_of_variables() -> None:
    """Text, and a reference to a Secret, a ConfigMap or a field, in the order of the table."""
    table = tomllib.loads("""
        replicas = 1
        resources = {limits = {memory = "1Gi", "example.com/gpu" = 1}}
        [env]
        B = "text"
        A = {secretKeyRef = {name = "s", key = "k", optional = true}}
        C = {configMapKeyRef = {name = "c", key = "k"}}
        D = {fieldRef = {fieldPath = "status.podIP"}}
    """)
    settings = container_settings(table)
    assert settings.replicas == 1
    assert settings.resources == {"limits": {"memory": "1Gi", "example.com/gpu": "1"}}
    assert settings.env == (
        {"name": "B", "value": "text"},
        {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}},
        {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
        {"name": "D", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("env = 'A=b'", r"env = 'A=b': write a table of NAME"),
        ("env.A = 5", r'env\.A = 5: write "text" or \{secretKeyRef'),
        ("env.1A = 'b'", r"env\.1A: a name has letters"),
        ("env.A = {secret = 'b'}", r"env\.A = .*other sources are configMapKeyRef and fieldRef"),
        ("env.A.secretKeyRef = 'b'", r"env\.A\.secretKeyRef = 'b': write key, name"),
        ("env.A.secretKeyRef = {name = 'b'}", r"env\.A\.secretKeyRef = .*: write key, name"),
        ("env.A.secretKeyRef = {name = 'b', key = ''}", r"env\.A\.secretKeyRef\.key = '': write a string"),
        ("env.A.secretKeyRef = {name = 'b', key = 'c', optional = 'yes'}", r"optional = 'yes': write true"),
        ("replicas = -1", r"replicas = -1: write a number"),
        ("replicas = true", r"replicas = True: write a number"),
        ("resources = {cpu = '1'}", r"resources = .*: write the tables requests and limits"),
        ("resources.limits = '1Gi'", r"resources\.limits = '1Gi': write a table"),
        ("resources.limits.memory = '1 GB'", r"resources\.limits\.memory = '1 GB': .*is not a quantity"),
        ("resources.limits.memory = true", r"resources\.limits\.memory = True: write a quantity"),
        (
            "resources = {requests = {cpu = '2'}, limits = {cpu = '500m'}}",
            r"resources\.requests\.cpu = '2' exceeds the limit '500m'",
        ),
        ("webhook-replicas = 'two'", r"webhook-replicas = 'two': write a number"),
        ("watch-namespaces = 'shop'", r"watch-namespaces = 'shop': write a list of namespaces"),
        ("watch-namespaces = ['Shop']", r"watch-namespaces = \['Shop'\]: write a list of namespaces"),
        ("pod = 5", r"pod: write a table with affinity, imagePullSecrets"),
        ("pod.hostNetwork = true", r"pod\.hostNetwork: write a table with affinity"),
        ("pod.tolerations = [{key = 5}]", r"pod: Expected `str .*tolerations"),
        (
            "pod.tolerations = [{key = 'a', operation = 'Exists'}]",
            r"pod\.tolerations\[0\]\.operation: a PodSpec has no",
        ),
        ("environment = 'x'", r"environment = 'x': write strings for .*; the other keys are env, resources, replicas"),
    ],
)
def test_a_wrong_table_is_refused(text: str, message: str, tmp_path: Path) -> None:
    """An invalid table is an error of one line with file, key and the correct form."""
    (tmp_path / "pyproject.toml").write_text(f"[tool.opsdk]\n{text}\n")
    with pytest.raises(UsageError, match=rf"^{tmp_path}/pyproject\.toml: \[tool\.opsdk\] .*{message}"):
        find_project(tmp_path)
