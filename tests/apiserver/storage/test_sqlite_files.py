"""Database files, which hold Secrets, are readable by their owner only."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from opsdk.apiserver.storage.sqlite import SqliteStorage


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_database_and_log_are_private(tmp_path: Path, umask: int) -> None:
    """With any umask, and also where an earlier server left files that others can read."""
    path = tmp_path / "data" / "objects.db"
    before = os.umask(umask)
    try:
        for _ in range(2):
            storage = SqliteStorage(path)
            files = list(path.parent.iterdir())
            assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
            assert path.parent.stat().st_mode & 0o777 == 0o700
            storage.close()
            for file in path.parent.iterdir():
                file.chmod(0o644)
    finally:
        os.umask(before)
