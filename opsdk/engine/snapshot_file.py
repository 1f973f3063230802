"""Reads the file of a snapshot."""

from __future__ import annotations

from pathlib import Path

from opsdk.engine.snapshot import ClusterSnapshot, SnapshotError, read_snapshot


def read_snapshot_file(path: Path | str) -> ClusterSnapshot:
    """Return the snapshot in a file. Raises `SnapshotError` with the file's name."""
    try:
        return read_snapshot(Path(path).read_bytes())
    except OSError as error:
        raise SnapshotError(f"{path} cannot be read: {error.strerror}") from error
    except SnapshotError as error:
        raise SnapshotError(f"{path}: {error}") from error
