"""Code of people's own on its way to workers."""

from __future__ import annotations

import importlib.util
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.engine.splits.code import SplitCode, pack

OPERATOR = """
LUCK = 3

def helper(number):
    return number + LUCK

class Operator:
    def told(self):
        return helper(4)
"""


def test_an_operator_of_a_file_that_workers_cannot_import_brings_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `--register operators.py` finds it."""
    path = tmp_path / "operators_of_mine.py"
    path.write_text(OPERATOR)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, path.stem, module)
    spec.loader.exec_module(module)
    sent = tmp_path / "sent"
    sent.write_bytes(pack("mine", SplitCode(module.Operator)).data)
    assert pickle.loads(sent.read_bytes()).operator().told() == 7
    program = f"import pickle; print(pickle.load(open({str(sent)!r}, 'rb')).operator().told())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "7\n"
