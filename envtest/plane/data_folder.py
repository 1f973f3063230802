"""Which version of Kubernetes a data folder is of."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from envtest.data.versions import DEFAULT
from opsdk.errors import ConfigError

_FILE: Final = "kubernetes-version"
_OBJECTS: Final = "objects.db"


def claim_folder(folder: Path, version: str) -> None:
    """Write the version into a new data folder. A folder without the file is of the default version.

    Raises:
        ConfigError: if the folder has objects of another version. Nothing in it is changed.
    """
    path = folder / _FILE
    stored = DEFAULT if (folder / _OBJECTS).exists() else version
    if path.exists():
        stored = path.read_text().strip()
    if stored != version:
        raise ConfigError(
            f"{folder} has the objects of Kubernetes {stored}, not of {version}: serve {stored}, or give another folder"
        )
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{version}\n")
