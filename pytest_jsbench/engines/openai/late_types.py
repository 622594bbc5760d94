"""
The OpenAI SDK without the types that nobody looks at, which take half of its time to import.

Its `openai.types` imports hundreds of modules, and so does each package below it; calls of ours use none of them.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
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
        for late in [module for module in sys.modules.values() if type(module) is LatePackage]:
            # whoever imports a module below it from now on looks at it first, and so its own code runs before
            late.__dict__.pop("__path__", None)


class LatePackage(ModuleType):
    """A package whose own code runs when somebody asks for a name that is not there; then it is like any other."""

    def __getattr__(self, name: str) -> Any:
        self._run()
        if name in self.__dict__:
            return self.__dict__[name]
        message = f"module {self.__name__!r} has no attribute {name!r}"
        raise AttributeError(message)

    def __dir__(self) -> list[str]:
        self._run()
        return list(self.__dict__)

    def _run(self) -> None:
        # another thread runs it too, rather than wait: it might hold a lock of the import for which this one waits
        running: set[int] = self.__dict__.setdefault("_running", set())
        spec = self.__spec__
        if get_ident() in running or spec is None or spec.loader is None:
            return
        running.add(get_ident())
        try:
            self.__path__ = spec.submodule_search_locations or []
            spec.loader.exec_module(self)
        finally:
            running.discard(get_ident())
        self.__class__ = ModuleType  # type: ignore[assignment]


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
        module.__class__ = LatePackage
