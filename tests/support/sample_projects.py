"""The samples that are operators, each as a project."""

from __future__ import annotations

import shutil
from pathlib import Path

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
_FILES = {
    "cluster_secret": ("ports/cluster_secret.py", "ports/cluster_secret.yaml"),
    "greeter": ("greeter/greeter.py", "greeter/greeting.yaml"),
    "memcached": ("ports/memcached.py", "ports/memcached.yaml"),
    "tomcat": ("ports/tomcat.py", "ports/tomcat.yaml"),
}
"""Operators of one file, and their objects; without `postgres`, which needs a certificate of another operator."""
_PROJECTS = (path.parent.name for path in SAMPLES.glob("*/pyproject.toml"))
OPERATORS = sorted([*_FILES, *(name for name in _PROJECTS if name != "bookshelf")])
"""All but one of the projects: the bookshelf is an API server."""
_SETTINGS = """
[project]
name = "{name}"
version = "0.1.0"
[tool.opsdk]
operator = "{name}:operator"
namespace = "{label}-system"
image = "{label}:0.1.0"
"""


def project_of(sample: str, folder: Path) -> Path:
    """Return the folder of a sample's project; `folder` is for the files of one that is not a project."""
    if sample not in _FILES:
        return SAMPLES / sample
    program, objects = _FILES[sample]
    (folder / "config/samples").mkdir(parents=True)
    (folder / "pyproject.toml").write_text(_SETTINGS.format(name=sample, label=sample.replace("_", "-")))
    shutil.copy(SAMPLES / program, folder)
    shutil.copy(SAMPLES / objects, folder / "config/samples")
    return folder
