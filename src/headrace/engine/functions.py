"""Registered functions on their way to tasks: pickled code in a private file, named with its checksum by every task.

A task runs no code but that whose checksum came with the task itself, so nobody who can merely write to the warehouse
makes a worker run something.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from pyspark import cloudpickle

from headrace.engine.sending import dumped
from headrace.model.errors import EngineError
from headrace.model.functions import FunctionFile
from headrace.model.types import SqlType
from headrace.operators.common.calls import Caller, FunctionFault, LoadedFunction
from headrace.storage.warehouse import Warehouse

FUNCTIONS_DIR = "functions"


def pickled(name: str, function: Callable[..., Any]) -> bytes:
    """A function as bytes. What it needs of its author's own program goes along, whichever module defines it: workers
    may not have the program.

    EngineError when that cannot be sent.
    """
    try:
        return dumped(function)
    except Exception as error:
        raise EngineError(
            "FUNCTION_NOT_SENT",
            f"the function {name}() cannot be sent to Spark's workers",
            detail=f"{type(error).__name__}: {error}",
            hint="let it and the modules of your program that it uses hold nothing but what can be pickled: no locks, "
            "sessions or open files",
        ) from error


def write_function(warehouse: Warehouse, name: str, type_: SqlType, code: bytes) -> FunctionFile:
    """Let tasks find a function, which is `pickled`."""
    checksum = hashlib.sha256(code).hexdigest()
    path = f"{FUNCTIONS_DIR}/{checksum[:32]}.code"
    warehouse.replace(path, code)
    return FunctionFile(name, type_, path, checksum)


def clear_functions(warehouse: Warehouse) -> None:
    """Remove the code that former sessions left behind."""
    folder = warehouse.path(FUNCTIONS_DIR)
    for file in folder.iterdir() if folder.is_dir() else ():
        warehouse.delete(f"{FUNCTIONS_DIR}/{file.name}")


def caller_of(root: str, functions: Sequence[FunctionFile]) -> Caller:
    """Calls the functions that a task names."""
    found = {function.name: function for function in functions}

    def load(name: str) -> LoadedFunction:
        if name not in found:
            raise EngineError(
                "FUNCTION_MISSING",
                f"the function {name}() is not registered",
                hint=f"register the function again: hr.register_function('{name}', ...)",
            )
        return _loaded(root, found[name])

    return Caller(load)


@lru_cache(maxsize=256)
def _loaded(root: str, file: FunctionFile) -> LoadedFunction:
    code = Path(root, file.path).read_bytes()
    if hashlib.sha256(code).hexdigest() != file.checksum:
        raise EngineError(
            "FUNCTION_DAMAGED",
            f"the file {file.path} is not what was written for the function {file.name}()",
            hint="register the function again",
        )
    return LoadedFunction(loaded(file.name, code), file.type)


@lru_cache(maxsize=256)
def loaded(name: str, code: bytes) -> Callable[..., Any]:
    """The function that was `pickled`. FunctionFault when it needs what is not there: only who calls it has to know."""
    try:
        function: Callable[..., Any] = cloudpickle.loads(code)
    except Exception as error:
        reason = f"Spark's workers cannot load it, {type(error).__name__}: {error}"[:500]
        raise FunctionFault(name, f"{reason}; install the modules that it needs where they run") from error
    return function
