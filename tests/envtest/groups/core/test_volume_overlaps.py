"""Overlapping paths within one volume."""

from __future__ import annotations

import pytest

from envtest.groups.core.volume_overlaps import overlap_warnings
from opsdk.structured_merge.value import JsonObject


def files(*paths: str, **more: str) -> JsonObject:
    """A source of files."""
    return {**more, "items": [{"key": "k", "path": path} for path in paths]}


VOLUMES: list[tuple[JsonObject, list[str]]] = [
    ({"emptyDir": {}}, []),
    ({"configMap": files("a", "b/c", name="m")}, []),
    ({"configMap": files("a/b", "a", name="m")}, ['volume "v" (ConfigMap "m"): overlapping paths: "a" with "a/b"']),
    ({"secret": files("a", "a/", secretName="s")}, ['volume "v" (Secret "s"): overlapping paths: "a" with "a"']),
    ({"downwardAPI": files("a", "a/b")}, ['volume "v" (DownwardAPI): overlapping paths: "a/b" with "a"']),
    (
        {"projected": {"sources": [{"secret": files("a", name="s")}, {"serviceAccountToken": {"path": "a/t"}}, {}]}},
        [
            'volume "v" (Projected ServiceAccountToken): overlapping paths: "a/t" with "a"',
            'volume "v" (Projected) has no sources provided',
        ],
    ),
    (
        {"projected": {"sources": [{"clusterTrustBundle": {"path": "p", "signerName": "s"}}, {"secret": {}}]}},
        [],
    ),
]


@pytest.mark.parametrize(("source", "told"), VOLUMES)
def test_files_in_the_way_are_reported(source: JsonObject, told: list[str]) -> None:
    """Overlapping paths are reported within one source and across the sources of a projection."""
    assert list(overlap_warnings([{"name": "v", **source}])) == told
