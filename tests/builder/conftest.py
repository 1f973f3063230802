"""The fakes, for the tests of this folder."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

_HERE = Path(__file__).parent


def _load(path: Path) -> None:
    if path.stem in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)


_load(_HERE.parent / "cache" / "fake_server.py")
_load(_HERE.parent / "flow" / "flowkit.py")
_load(_HERE.parent / "client" / "clientkit.py")
