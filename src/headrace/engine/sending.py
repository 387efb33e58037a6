"""Code of people's own as it is sent to workers: what it needs of its author's program goes along."""

from __future__ import annotations

import sys
import sysconfig
from functools import cache
from pathlib import Path
from types import ModuleType

from pyspark import cloudpickle

_HOMES = {
    path for name in ("stdlib", "platstdlib", "purelib", "platlib") if (path := sysconfig.get_path(name))
}


def dumped(code: object) -> bytes:
    """Code as bytes, with whatever it uses of modules that workers may not have. Raises what pickling raises."""
    own = _own_modules()
    try:
        for module in own:
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
        found: bytes = cloudpickle.dumps(code)  # type: ignore[no-untyped-call]
        return found
    finally:
        for module in own:
            cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _own_modules() -> list[ModuleType]:
    """The modules of the program that runs, but for those that it lets cloudpickle send by itself."""
    sent = cloudpickle.list_registry_pickle_by_value()  # type: ignore[no-untyped-call]
    return [
        module
        for name, module in list(sys.modules.items())
        if isinstance(module, ModuleType)
        and module.__name__ == name
        and name not in sent
        and not _is_installed(module)
    ]


def _is_installed(module: ModuleType) -> bool:
    """Whether workers can import a module by themselves: those of Python, of installed packages, Spark's and ours."""
    file = vars(module).get("__file__")
    if module.__name__.split(".")[0] in ("headrace", "pyspark", "py4j", "__main__") or not isinstance(
        file, str
    ):
        return True  # of a program that is run, everything goes along in any case
    return _is_installed_file(file)


@cache
def _is_installed_file(file: str) -> bool:
    if {"site-packages", "dist-packages"}.intersection(Path(file).parts):
        return True
    return any(Path(file).is_relative_to(home) for home in _HOMES)
