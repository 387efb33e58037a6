"""`--register`: modules of people's own that tell a session what the warehouse cannot keep, functions above all.

A module is named as for `import`, or by the path of its file. Its function `register(session)` is called once, when the
warehouse is open and before the first epoch.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from headrace.model.errors import EngineError

Register = Callable[[Any], object]


def find_registers(names: Iterable[str]) -> list[Register]:
    """The `register` of each module; EngineError for one that cannot be imported or has none. Needs no Spark."""
    return [_register_of(name, _module(name)) for name in names]


def call_registers(session: object, registers: Iterable[Register]) -> None:
    """Let modules register what they have; EngineError names the one that fails."""
    for register in registers:
        try:
            register(session)
        except Exception as error:
            raise EngineError(
                "MODULE_FAILED",
                f"register(session) of {register.__module__} failed",
                detail=f"{type(error).__name__}: {error}",
                hint="the module is called when the warehouse is open: see --register in docs/command-line.md",
            ) from error


def _module(name: str) -> ModuleType:
    try:
        return _from_file(Path(name)) if name.endswith(".py") else _imported(name)
    except Exception as error:
        raise EngineError(
            "MODULE_FAILED",
            f"the module {name} cannot be imported",
            detail=f"{type(error).__name__}: {error}",
            hint="name a module that Python finds from here, or the path of a file that ends with .py",
        ) from error


def _imported(name: str) -> ModuleType:
    """A module that is installed, or lies in the current directory."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    return importlib.import_module(name)


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    name = f"{path.stem} of {path.parent.resolve()}"  # no other module has it: a file may be called queue.py
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # code that goes to workers is found by its module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _register_of(name: str, module: ModuleType) -> Register:
    found = getattr(module, "register", None)
    if not callable(found):
        raise EngineError(
            "MODULE_FAILED",
            f"the module {name} has no function register(session)",
            hint="write one: def register(session): session.register_function('similar', similar, 'DOUBLE')",
        )
    register: Register = found
    return register
