from __future__ import annotations

import importlib
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pytest_jsbench.engines.openai.late_types import late_types

TYPES = "from .small import SMALL\nfrom .large import LARGE\nfrom .deep import DEEP\n"
FILES = {
    "__init__.py": "from . import types\nfrom .types.small import SMALL\n",
    "types/__init__.py": TYPES,
    "types/small.py": "SMALL = 1\n",
    "types/large.py": "from . import deep\nLARGE = 2\n",
    "types/other.py": "OTHER = 4\n",
    "types/deep/__init__.py": "from .one import DEEP\n",
    "types/deep/one.py": "DEEP = 3\n",
}


@pytest.fixture
def sdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An SDK whose types import each other, imported without them."""
    for name, text in FILES.items():
        path = tmp_path / "late_sdk" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    finders = list(sys.meta_path)
    with late_types("late_sdk.types"):
        made = importlib.import_module("late_sdk")
    assert sys.meta_path == finders
    yield made
    for name in [name for name in sys.modules if name.partition(".")[0] == "late_sdk"]:
        del sys.modules[name]


def loaded() -> set[str]:
    return {name.removeprefix("late_sdk.types.") for name in sys.modules if name.startswith("late_sdk.types.")}


def test_only_what_the_sdk_itself_names_is_imported(sdk: Any) -> None:
    assert sdk.SMALL == 1
    assert loaded() == {"small"}


@pytest.mark.parametrize(
    "look",
    [
        "from late_sdk.types import LARGE",
        "from late_sdk.types import *",
        "import late_sdk; dir(late_sdk.types)",
        "import late_sdk; vars(late_sdk.types)",
    ],
)
def test_whoever_looks_at_the_types_finds_all_of_them(sdk: Any, look: str) -> None:
    exec(look, {})

    assert loaded() >= {"small", "large", "deep", "deep.one"}
    assert (sdk.types.LARGE, sdk.types.DEEP, type(sdk.types)) == (2, 3, ModuleType)
    assert Path(sdk.types.deep.__file__).name == "__init__.py"
    assert "__running__" not in dir(sdk.types)


def test_what_somebody_puts_in_the_place_of_a_type_stays_there(sdk: Any) -> None:
    sdk.types.LARGE = "another"

    assert (sdk.types.DEEP, sdk.types.LARGE) == (3, "another")


def test_who_looks_while_another_thread_finishes_finds_all_of_them_too(sdk: Any) -> None:
    late: Any = type(sdk.types)
    assert sdk.types.LARGE == 2
    assert type(sdk.types) is ModuleType

    late.__setattr__(sdk.types, "MORE", 5)
    assert late.__getattribute__(sdk.types, "__dict__")["MORE"] == 5
    assert late.__getattr__(sdk.types, "DEEP") == 3


def test_a_package_of_types_is_pickled_by_its_name(sdk: Any) -> None:
    assert pickle.loads(pickle.dumps(sdk.types)) is sdk.types


@pytest.mark.parametrize("look", ["from late_sdk.types.other import OTHER", "from late_sdk.types import other"])
def test_a_module_below_the_types_is_imported_alone_so_that_no_thread_waits_for_it(sdk: Any, look: str) -> None:
    exec(look, {})

    assert loaded() == {"small", "other"}
    assert (sdk.types.other.OTHER, sdk.types.LARGE) == (4, 2)


def test_a_thread_that_imports_a_type_holds_up_none_that_imports_another(sdk: Any) -> None:
    types = Path(sdk.__file__).parent / "types"
    (types / "__init__.py").write_text(
        "import late_sdk\nlate_sdk.waits.set()\nlate_sdk.goes_on.wait(20)\nfrom .large import LARGE\n"
    )
    (types / "large.py").write_text("from .other import OTHER\nLARGE = 2\n")
    sdk.waits, sdk.goes_on = waits, goes_on = threading.Event(), threading.Event()
    problems: list[Exception] = []

    def look(module: str) -> None:
        try:
            importlib.import_module(f"late_sdk.types.{module}")
        except (ImportError, RuntimeError) as error:
            problems.append(error)

    other, large = (threading.Thread(target=look, args=[name]) for name in ("other", "large"))
    other.start()
    waits.wait(0.2)
    large.start()
    large.join(0.2)
    goes_on.set()
    for thread in (other, large):
        thread.join(20)

    assert problems == []
    assert sdk.types.LARGE == 2


def test_another_import_without_types_disturbs_nobody_who_imports_them(sdk: Any) -> None:
    (Path(sdk.__file__).parent / "types" / "__init__.py").write_text("import late_sdk\nlate_sdk.again()\n" + TYPES)

    def again() -> None:
        with late_types("late_sdk.types"):
            importlib.import_module("late_sdk")

    sdk.again = again

    assert sdk.types.LARGE == 2


def test_a_name_that_no_type_has_is_an_error_as_of_any_package(sdk: Any) -> None:
    with pytest.raises(ImportError, match=r"cannot import name 'NONE' from 'late_sdk\.types'"):
        exec("from late_sdk.types import NONE", {})
    with pytest.raises(AttributeError, match=r"module 'late_sdk\.types' has no attribute 'NONE'"):
        _ = sdk.types.NONE


ASKED = """
import sys
from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.engines.openai.engine import FACTORY
config = EngineConfig(name="openai", model="m", base_url="http://127.0.0.1:1/v1", api_key="none")
FACTORY.build(config).close()
names = [f"openai.types.{name}" for name in ("eval_create_params", "responses.response", "batch")]
unused = [name for name in names if name in sys.modules]
from openai.types.responses import Response
print(unused, Response.model_fields["output"].annotation is not None, "openai.types.batch" in sys.modules)
"""


def test_an_engine_imports_none_of_the_types_and_a_project_finds_them_all() -> None:
    done = subprocess.run([sys.executable, "-c", ASKED], capture_output=True, text=True, check=True)

    assert done.stdout.split("\n")[0] == "[] True False"
