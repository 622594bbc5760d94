"""
The OpenAI SDK without the types that nobody looks at, which take half of its time to import.

Its `openai.types` imports hundreds of modules, and so does each package below it; calls of ours use none of them.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import PathFinder
from threading import get_ident
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from importlib.machinery import ModuleSpec


@contextmanager
def late_types(package: str = "openai.types") -> Iterator[None]:
    """Inside, import the SDK: these types, where they are not there yet, are imported when somebody looks at them."""
    finder = _TypesFinder(package)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class LatePackage(ModuleType):
    """
    A package whose own code runs when somebody asks for a name that is not there; then it is like any other.

    It runs too before somebody sees or changes its names; but not for whoever imports a module below it: that thread
    holds the lock of the import, and a half imported module may be what the code asks for. Any thread may ask first.
    """

    def __getattr__(self, name: str) -> Any:
        below = f"{self.__name__}.{name}"
        if not name.startswith("__") and PathFinder.find_spec(below, self.__path__) is not None:
            return import_module(below)
        names = self.__dict__
        if name in names:
            return names[name]
        message = f"module {self.__name__!r} has no attribute {name!r}"
        raise AttributeError(message)

    # another thread may have run it meanwhile, and then its class is another, of which `super()` knows nothing
    def __getattribute__(self, name: str) -> Any:
        if name == "__dict__":
            _run(self)
        return ModuleType.__getattribute__(self, name)

    def __setattr__(self, name: str, value: object) -> None:
        if not (isinstance(value, ModuleType) or name.startswith("__")):  # as importing sets them
            _run(self)
        ModuleType.__setattr__(self, name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        return import_module, (self.__name__,)


def _run(package: ModuleType) -> None:
    names: dict[str, Any] = ModuleType.__getattribute__(package, "__dict__")
    # another thread runs it too, rather than wait: it might hold a lock of the import for which this one waits
    running: set[int] | None = names.get(_RUNNING)
    spec = package.__spec__
    if running is None or get_ident() in running or spec is None or spec.loader is None:
        return
    running.add(get_ident())
    try:
        spec.loader.exec_module(package)
    finally:
        running.discard(get_ident())
    package.__class__ = ModuleType
    names.pop(_RUNNING, None)


#: the threads that run a package's code, among its names until it has run
_RUNNING = "__running__"


class _TypesFinder(MetaPathFinder):
    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(self, name: str, path: Sequence[str] | None, _target: ModuleType | None = None) -> ModuleSpec | None:
        if name != self._package and not name.startswith(f"{self._package}."):
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is not None and spec.submodule_search_locations and spec.loader is not None:
            spec.loader = _LateLoader(spec.loader)
        return spec


class _LateLoader(Loader):
    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__dict__[_RUNNING] = set()
        module.__class__ = LatePackage
