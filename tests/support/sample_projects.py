"""The samples that are operators, each as a project."""

from __future__ import annotations

import shutil
from pathlib import Path

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
OPERATORS = sorted(folder.name for folder in SAMPLES.iterdir() if folder.name != "bookshelf")
"""All but one: the bookshelf is an API server."""
# The greeter is one file; as a project it has these settings.
_GREETER = """
[project]
name = "greeter"
version = "0.1.0"
[tool.opsdk]
operator = "greeter:operator"
namespace = "greeter-system"
image = "greeter:0.1.0"
"""


def project_of(sample: str, folder: Path) -> Path:
    """Return the folder of a sample's project; `folder` is for the files of one that is not a project."""
    if (SAMPLES / sample / "pyproject.toml").exists():
        return SAMPLES / sample
    (folder / "config/samples").mkdir(parents=True)
    (folder / "pyproject.toml").write_text(_GREETER)
    shutil.copy(SAMPLES / sample / "greeter.py", folder)
    shutil.copy(SAMPLES / sample / "greeting.yaml", folder / "config/samples")
    return folder
