"""One process compiles at a time, whatever lies in the place of the lock keeps nobody from it, and code is kept."""

from __future__ import annotations

import fcntl
import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest
from numba import int64

from headrace.operators.compiled import compiling, keeping
from headrace.operators.compiled.compiling import compiled, given, made


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(compiling.tempfile, "gettempdir", lambda: str(tmp_path))
    return tmp_path / f"headrace-kernels-{os.getuid()}.lock"


def test_others_wait_until_one_has_compiled(lock: Path) -> None:
    with compiling._alone(), open(lock) as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert lock.stat().st_mode & 0o077 == 0, "nobody else can hold it"
    with open(lock) as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_link_that_somebody_has_put_there_is_not_followed(lock: Path) -> None:
    elsewhere = lock.with_name("elsewhere")
    lock.symlink_to(elsewhere)
    with compiling._alone():
        assert not elsewhere.exists()


def test_where_files_cannot_be_locked_everybody_compiles(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise OSError("no locks available")

    monkeypatch.setattr(compiling.fcntl, "flock", fails)
    with compiling._alone():
        assert lock.exists()


def double(given: Any, into: Any) -> None:
    for i in range(len(given)):
        into[i] = 2 * given[i]


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Nothing was said yet, and nothing is kept of what is."""
    monkeypatch.setattr(compiling, "_said", [])
    return compiling._said


@pytest.mark.parametrize(
    "failing", [RuntimeError, OSError, EOFError]
)  # of the last kind once more with a place
def test_where_code_cannot_be_kept_it_is_compiled_all_the_same(
    failing: type[Exception],
    said: list[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """No place that can be written to, a full disk, a file that was cut off."""
    made_by: list[Any] = []

    def njit(wanted: Any, *, nogil: bool, cache: bool = False) -> Callable[..., Any]:
        def compile_(function: Any) -> Any:
            made_by.append(cache)
            if cache:
                raise failing("no space left on device")
            return function

        return compile_

    monkeypatch.setattr(compiling, "njit", njit)
    for _ in range(2):
        assert compiled((given(int64), made(int64)))(double) is double
    assert made_by == ([True, True, False] if failing is EOFError else [True, False]) * 2
    (message,) = caplog.messages
    assert "no space left on device" in message


def test_kernels_run_where_no_cache_can_be_made(
    said: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without a directory of the user's own, numba raises what the system says."""
    from numba.core import caching

    class Unwritable:
        @classmethod
        def from_function(cls, function: Any, path: str) -> Any:
            (tmp_path / "nowhere" / "cache").mkdir()

    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [Unwritable])
    kernel = compiled((given(int64), made(int64)))(double)
    found = np.zeros(2, np.int64)
    kernel(np.array([1, 5]), found)
    assert found.tolist() == [2, 10] and len(said) == 1


TINY = """
from numba import int64
from headrace.operators.compiled.compiling import compiled, given, made

@compiled((given(int64), made(int64)))
def double(given, into):
    for i in range(len(given)):
        into[i] = {factor} * given[i]
"""


def shipped(folder: Path, factor: int, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The kernel of a package in a zip file, imported anew."""
    folder.mkdir()
    with ZipFile(folder / "tiny_package.zip", "w") as archive:
        archive.writestr("tiny_package/__init__.py", "")
        archive.writestr("tiny_package/kernels.py", TINY.format(factor=factor))
    monkeypatch.setattr(keeping, "PACKAGE", "tiny_package")
    monkeypatch.syspath_prepend(str(folder / "tiny_package.zip"))
    for name in [name for name in sys.modules if name.startswith("tiny_package")]:
        monkeypatch.delitem(sys.modules, name)
    return importlib.import_module("tiny_package.kernels").double


def test_what_is_shipped_is_compiled_once(
    said: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Spark puts the package into another directory in each session."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    loaded = []
    for session, factor in (("one", 2), ("two", 2), ("three", 3)):
        kernel = shipped(tmp_path / session, factor, monkeypatch)
        found = np.zeros(1, np.int64)
        kernel(np.array([5]), found)
        assert found.tolist() == [5 * factor]
        loaded.append(sum(kernel.stats.cache_hits.values()))
    assert loaded == [0, 1, 0] and not said
    (home,) = (tmp_path / "cache").iterdir()
    assert home.stat().st_mode & 0o077 == 0 and len(list(home.iterdir())) == 2
    for code in home.iterdir():
        assert [path.name for path in code.glob("*.lock")] == [f"headrace-kernels-{os.getuid()}.lock"]


def test_machines_with_other_processors_have_other_places(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Home directories may be on a network."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = set()
    for name, features in (("one", "+a"), ("other", "+a"), ("one", "+b"), ("one", "+b")):
        keeping._processor.cache_clear()
        flags = SimpleNamespace(flatten=lambda features=features: features)
        monkeypatch.setattr(keeping.llvm, "get_host_cpu_name", lambda name=name: name)
        monkeypatch.setattr(keeping.llvm, "get_host_cpu_features", lambda flags=flags: flags)
        locator = keeping.ShippedCacheLocator.from_function(keeping.keep_shipped, "/in/a.zip/module.py")
        assert locator is not None
        found.add(locator.get_cache_path())
    keeping._processor.cache_clear()
    assert len(found) == 3


def test_nothing_is_kept_of_what_has_no_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Code without its text cannot be told from that of another version."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    texts = {keeping.__name__: "text", compiling.__name__: None}
    loader = SimpleNamespace(get_source=texts.__getitem__)
    monkeypatch.setattr(keeping, "find_spec", lambda _: SimpleNamespace(loader=loader))
    assert keeping.ShippedCacheLocator.from_function(keeping.keep_shipped, "/in/a.zip/module.pyc") is None
    texts[compiling.__name__] = "text"
    assert keeping.ShippedCacheLocator.from_function(keeping.keep_shipped, "/in/a.zip/module.pyc") is not None


def test_a_home_that_nobody_knows_is_not_a_directory_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(keeping.os.path, "expanduser", lambda path: path)
    (temporary,) = keeping._homes()
    assert temporary.is_absolute()
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    assert keeping._homes() == [temporary]


def no_elf_class(code: bytes) -> bytes:
    """Damage inside of the machine code, which pickle does not see: LLVM would end the process."""
    at = code.index(b"\x7fELF") + 4
    return code[:at] + b"\xff" + code[at + 1 :]


@pytest.mark.parametrize(
    ("ending", "damage"),
    [
        ("nbi", lambda code: b""),
        ("nbc", lambda code: b"no pickle"),
        ("nbc", lambda code: b"\x80\xff."),
        ("nbc", no_elf_class),
        ("sha256", lambda code: b"\xff"),
        ("sha256", lambda code: b""),
    ],
)
def test_what_is_damaged_is_written_anew(
    ending: str,
    damage: Callable[[bytes], bytes],
    said: list[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shipped(tmp_path / "one", 2, monkeypatch)
    for path in (tmp_path / "cache").rglob(f"*.{ending}"):
        path.write_bytes(damage(path.read_bytes()))
    loaded = []
    for session in ("two", "three"):
        kernel = shipped(tmp_path / session, 2, monkeypatch)
        found = np.zeros(1, np.int64)
        kernel(np.array([5]), found)
        assert found.tolist() == [10]
        loaded.append(sum(kernel.stats.cache_hits.values()))
    assert loaded == [0, 1] and not said


def test_a_change_of_how_kernels_are_compiled_compiles_them_anew(
    said: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Numba's stamp is of the kernel's own module, and functions of `compiling` are parts of kernels."""
    source = tmp_path / "tiny_checkout.py"
    source.write_text(TINY.format(factor=2))
    monkeypatch.syspath_prepend(str(tmp_path))
    loaded = []
    for text in ("old", "old", "new"):
        monkeypatch.setattr(keeping, "_text_of", lambda module, text=text: text)
        monkeypatch.delitem(sys.modules, "tiny_checkout", raising=False)
        kernel = importlib.import_module("tiny_checkout").double
        loaded.append(sum(kernel.stats.cache_hits.values()))
    assert loaded == [0, 1, 0] and not said


def test_what_is_wrong_with_a_kernel_is_not_told_as_a_matter_of_the_disk(
    said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise ValueError("a fault of the kernel")

    monkeypatch.setattr(compiling, "njit", fails)
    with pytest.raises(ValueError, match="a fault of the kernel"):
        compiled((given(int64), made(int64)))(double)
    assert not said


def test_no_code_is_taken_from_where_others_can_write(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(keeping.tempfile, "gettempdir", lambda: str(tmp_path / "temporary"))
    user, temporary = keeping._homes()
    user.mkdir(parents=True)
    user.chmod(0o777)
    locator = keeping.ShippedCacheLocator
    found = locator.from_function(keeping.keep_shipped, "/in/a.zip/module.py")
    assert found is not None and Path(found.get_cache_path()).parent == temporary
    assert locator.from_function(keeping.keep_shipped, __file__) is None, "no zip file"
    assert locator.from_function(double, "/in/a.zip/module.py") is None, "not ours"
    code = Path(found.get_cache_path())
    assert code.stat().st_mode & 0o077 == 0, "whatever the umask says"
    code.chmod(0o770)
    assert locator.from_function(keeping.keep_shipped, "/in/a.zip/module.py") is None
    code.chmod(0o700)
    assert locator.from_function(keeping.keep_shipped, "/in/a.zip/module.py") is not None
    temporary.chmod(0o707)
    assert locator.from_function(keeping.keep_shipped, "/in/a.zip/module.py") is None
