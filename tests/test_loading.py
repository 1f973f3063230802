"""Imports on first use."""

from __future__ import annotations

import importlib
import inspect
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from opsdk.loading import on_first_use

NAMES = ("lazy_house", "lazy_house.room", "lazy_house.hall")


@pytest.fixture(autouse=True)
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package with two modules; each load adds a word to a list."""
    folder = tmp_path / "lazy_house"
    folder.mkdir()
    (folder / "__init__.py").write_text("LOADED = []\n")
    (folder / "room.py").write_text(
        textwrap.dedent("""
            '''A room.'''
            import lazy_house
            from lazy_house import hall
            lazy_house.LOADED.append("room")
            def name():
                return __name__ + hall.NAME
        """)
    )
    (folder / "hall.py").write_text("import lazy_house\nlazy_house.LOADED.append('hall')\nNAME = '!'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    for module in NAMES:
        sys.modules.pop(module, None)


def loaded() -> list[str]:
    """What has run."""
    return list(sys.modules["lazy_house"].LOADED)


def lazy_room() -> ModuleType:
    """The module, which has not run."""
    with on_first_use:
        from lazy_house import room
    return room  # type: ignore[no-any-return]


def test_a_module_runs_when_it_is_used() -> None:
    """The import runs nothing; the first attribute runs the module and what it imports, once."""
    room = lazy_room()
    assert inspect.getmodule(loaded) is sys.modules[__name__]  # looks at all modules
    assert loaded() == []
    assert room.name() == "lazy_house.room!"
    assert room.__doc__ == "A room."
    assert loaded() == ["hall", "room"]
    assert type(room) is ModuleType


def test_other_imports_see_the_same_module() -> None:
    """A plain import of the module runs it; both names are one module."""
    room = lazy_room()
    import lazy_house.room as plain
    from lazy_house.room import name

    assert plain is room
    assert name is room.name
    assert loaded() == ["hall", "room"]


def test_a_module_that_ran_is_not_run_again() -> None:
    """A lazy import after a plain one is that module."""
    import lazy_house.room

    assert lazy_room() is lazy_house.room
    assert loaded() == ["hall", "room"]


def test_a_lazy_module_may_import_lazily(house: Path) -> None:
    """Its own imports are plain ones, except in a block of its own."""
    (house / "room.py").write_text(
        "import lazy_house\nfrom opsdk.loading import on_first_use\n"
        "with on_first_use:\n    from lazy_house import hall\n"
        "lazy_house.LOADED.append('room')\ndef name():\n    return hall.NAME\n"
    )
    room = lazy_room()
    assert callable(room.name)
    assert loaded() == ["room"]
    assert room.name() == "!"
    assert loaded() == ["room", "hall"]


def test_a_package_is_imported_at_once(house: Path) -> None:
    """Else a plain import of a submodule, which the package has imported too, would run it twice."""
    (house / "__init__.py").write_text("LOADED = []\nfrom lazy_house.room import name\n")
    with on_first_use:
        import lazy_house
    from lazy_house.hall import NAME

    assert lazy_house.name() == "lazy_house.room" + NAME
    assert loaded() == ["hall", "room"]


def test_setting_an_attribute_runs_the_module_first() -> None:
    """Else the module would overwrite what a test has set."""
    room = lazy_room()
    room.name = lambda: "mine"
    assert room.name() == "mine"
    assert loaded() == ["hall", "room"]


def test_a_missing_module_is_an_error_at_the_import(house: Path) -> None:
    """A wrong name is no surprise at run time."""
    with pytest.raises(ImportError), on_first_use:
        from lazy_house import cellar  # noqa: F401
    assert on_first_use not in sys.meta_path


def test_a_module_that_raises_runs_again(house: Path) -> None:
    """A module that could not run is tried again by the next use."""
    (house / "hall.py").write_text("raise OSError('dark')\n")
    room = lazy_room()
    for _ in range(2):
        with pytest.raises(OSError, match="dark"):
            room.name()
    (house / "hall.py").write_text("NAME = ' is lit'\n")
    sys.path_importer_cache.clear()
    assert room.name() == "lazy_house.room is lit"


def test_threads_run_a_module_once(house: Path) -> None:
    """A thread that uses a module which another one is running waits for it."""
    inside, go_on = threading.Event(), threading.Event()
    sys.modules["lazy_gate"] = gate = ModuleType("lazy_gate")
    gate.inside, gate.go_on = inside, go_on  # type: ignore[attr-defined]
    (house / "hall.py").write_text(
        "import lazy_gate\nlazy_gate.inside.set()\nlazy_gate.go_on.wait(20)\nNAME = ' at last'\n"
    )
    room = lazy_room()
    names: list[str] = []
    threads = [threading.Thread(target=lambda: names.append(room.name()), daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    inside.wait(20)
    go_on.set()
    for thread in threads:
        thread.join(20)
    del sys.modules["lazy_gate"]
    assert names == ["lazy_house.room at last"] * 3
    assert loaded() == ["room"]


def test_the_names_of_a_package_are_imported_when_they_are_used(house: Path) -> None:
    """A name loads its module once; another name is an AttributeError of the package."""
    (house / "__init__.py").write_text(
        "from opsdk.loading import names_on_first_use\n"
        "LOADED = []\n"
        "__getattr__ = names_on_first_use(globals(), {'attic': ('box', 'beam')})\n"
    )
    (house / "attic.py").write_text("import lazy_house\nlazy_house.LOADED.append('attic')\nbox, beam = 1, 2\n")
    package = importlib.import_module("lazy_house")
    assert package.LOADED == []
    assert (package.box, package.beam, package.box) == (1, 2, 1)
    assert package.LOADED == ["attic"]
    with pytest.raises(AttributeError, match="'lazy_house' has no attribute 'cellar'"):
        _ = package.cellar
    sys.modules.pop("lazy_house.attic")
