"""Warnings about overlapping paths in volumes. Pure.

Upstream: pkg/api/pod/warnings.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from opsdk.structured_merge.value import JsonObject

_ITEMS = (("configMap", "ConfigMap", "name"), ("secret", "Secret", "secretName"), ("downwardAPI", "DownwardAPI", ""))


def overlap_warnings(volumes: Iterable[JsonObject]) -> Iterator[str]:
    """Warn of files of one volume with overlapping paths."""
    for volume in volumes:
        start = f'volume "{volume.get("name", "")}"'
        for key, word, name in _ITEMS:
            source = volume.get(key) or {}
            of = f'{word} "{source.get(name, "")}"' if name else word
            yield from _colliding(_paths(source), f"{start} ({of}): overlapping paths")
        sources = (volume.get("projected") or {}).get("sources") or ()
        earlier: set[str] = set()
        for source in sources:
            if not source:
                yield f"{start} (Projected) has no sources provided"
                continue
            paths, of = _source(source)
            if paths:
                text = f"{start} (Projected {of}): overlapping paths"
                yield from _colliding(paths, text)
                yield from _colliding(sorted([*set(paths), *earlier]), text)
                earlier.update(paths)


def _source(source: JsonObject) -> tuple[list[str], str]:
    for key, word, name in _ITEMS:
        if (source.get(key) or {}).get("items"):
            of = f'{word} "{source[key].get("name", "")}"' if name else word
            return _paths(source[key]), of
    token, bundle = source.get("serviceAccountToken"), source.get("clusterTrustBundle")
    if token is not None:
        return [token.get("path", "")], "ServiceAccountToken"
    if bundle is not None:
        return [bundle.get("path", "")], f'ClusterTrustBundle "{bundle.get("name") or bundle.get("signerName", "")}"'
    return [], ""


def _paths(source: JsonObject) -> list[str]:
    return [item.get("path", "") for item in source.get("items") or ()]


def _colliding(paths: Iterable[str], text: str) -> Iterator[str]:
    previous: list[str] = []
    for path in (mount_path.rstrip("/") for mount_path in paths):
        other = next(
            (o for o in previous if o and path and (f"{o}/".startswith(path) or f"{path}/".startswith(o))), None
        )
        if other is not None:
            yield f'{text}: "{path}" with "{other}"'
        if path not in previous:
            previous.append(path)
