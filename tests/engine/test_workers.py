"""What workers of a cluster lack, and Spark Connect: fakes stand for Spark."""

from __future__ import annotations

import os
import pkgutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zipfile import ZipFile

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

import headrace
from headrace.engine.spark import private_settings, running_session
from headrace.engine.workers import equip_workers, package_zip
from headrace.model.errors import EngineError
from headrace.operators import compiled
from headrace.sparks import SparkSessions


class FakeContext:
    """A cluster whose workers answer with what `answer` gives; `taken` are the files that were shipped to them."""

    def __init__(self, answer: Any, master: str = "spark://host:7077") -> None:
        self.answer, self.master, self.defaultParallelism = answer, master, 2
        self.taken: list[str] = []
        self.jobs: list[list[str]] = []

    def parallelize(self, questions: list[str], tasks: int) -> FakeContext:
        self.questions = questions
        self.jobs.append(questions)
        return self

    def map(self, function: Any) -> FakeContext:
        return self

    def collect(self) -> list[Any]:
        return [self.answer(self, question) for question in self.questions]

    def addPyFile(self, path: str) -> None:
        self.taken.append(path)


def spark(context: FakeContext) -> Any:
    return SimpleNamespace(sparkContext=context)


def test_workers_like_the_driver_lack_nothing(tmp_path: Path) -> None:
    (tmp_path / "format.json").write_text("{}")
    context = FakeContext(lambda _, question: eval(question))
    equip_workers(spark(context), tmp_path)
    assert context.taken == [] and [len(questions) for questions in context.jobs] == [2, 2]
    assert "import" in context.questions[0] and "headrace.operators.kinds" in context.questions[0], (
        "compiled by now"
    )


def test_nobody_is_asked_on_a_local_master(tmp_path: Path) -> None:
    equip_workers(spark(FakeContext(None, "local[2]")), tmp_path)


def test_the_package_is_shipped_where_it_is_missing(tmp_path: Path) -> None:
    def answer(context: FakeContext, question: str) -> Any:
        python = ".".join(map(str, sys.version_info[:2]))
        return (python, [], True, headrace.__version__ if context.taken else None)

    context = FakeContext(answer)
    equip_workers(spark(context), tmp_path)
    (shipped,) = context.taken
    done = subprocess.run(  # not the tasks: compiling all of the package takes a second, which a local cluster does
        [sys.executable, "-c", "import headrace.model.version as v; print(v.__file__)"],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": shipped},
    )
    assert done.stdout.startswith(shipped)


@pytest.mark.parametrize(
    ("answer", "lacking"),
    [
        (("2.7", [], True, None), "Python"),
        ((None, ["pyarrow"], True, None), "pyarrow"),
        ((None, [], False, headrace.__version__), "shared with the driver"),
        ((None, [], True, "0.0.1"), "the package headrace"),
    ],
)
def test_what_workers_lack_is_told(tmp_path: Path, answer: tuple[Any, ...], lacking: str) -> None:
    python = answer[0] or ".".join(map(str, sys.version_info[:2]))
    context = FakeContext(lambda *_: (python, *answer[1:]))
    with pytest.raises(EngineError) as caught:
        equip_workers(spark(context), tmp_path)
    assert caught.value.code == "WORKERS_LACK" and lacking in caught.value.message
    assert "docs/clusters.md" in (caught.value.hint or "")


def test_workers_that_cannot_load_the_kernels_are_told_of(tmp_path: Path) -> None:
    (tmp_path / "format.json").write_text("{}")

    def answer(context: FakeContext, question: str) -> Any:
        if len(context.jobs) == 2:
            raise ImportError("numba needs another numpy")
        return eval(question)

    with pytest.raises(EngineError) as caught:
        equip_workers(spark(FakeContext(answer)), tmp_path)
    assert "numba needs another numpy" in (caught.value.detail or "")


def test_the_daemon_has_the_kernels_and_no_thread_besides() -> None:
    """A copy of a process with threads may wait for ever for a lock that one of these held. Its workers draw random
    numbers of their own.
    """
    program = """
import os, sys
from headrace.engine.worker_daemon import load_kernels
load_kernels()
kernels = [name for name in sys.modules if name.startswith("headrace.operators.compiled.")]
print(len(kernels), len(os.listdir("/proc/self/task")), "pyarrow" in sys.modules, flush=True)
for _ in range(2):
    if os.fork() == 0:
        os.write(1, f"{sys.modules['numpy'].random.random()}\\n".encode())
        os._exit(0)
    os.wait()
"""
    environment = {k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
    )
    kernels = len(list(pkgutil.iter_modules(compiled.__path__)))
    *daemon, first, second = done.stdout.split()
    assert daemon == [str(kernels), "1", "False"]
    assert first != second


class DeadGateway:
    """The connection to a JVM that nobody answers on."""

    closed = False

    @property
    def jvm(self) -> Any:
        raise ConnectionRefusedError("connection refused")

    def shutdown(self) -> None:
        self.closed = True


def test_a_jvm_that_has_died_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark would go on asking it, and opening a warehouse again would fail for ever in this process."""
    gateway, stopped = DeadGateway(), list[Any]()
    context: Any = SimpleNamespace(_jsc="of the dead", stop=lambda: stopped.append(context._jsc))
    monkeypatch.setattr(SparkContext, "_gateway", gateway)
    monkeypatch.setattr(SparkContext, "_jvm", "of the dead")
    monkeypatch.setattr(SparkContext, "_active_spark_context", context)
    monkeypatch.setattr(SparkSession, "_instantiatedSession", "of the dead")
    assert running_session() is None
    assert (stopped, gateway.closed) == ([None], True), (
        "what it has in this process is stopped, without asking the JVM"
    )
    assert (SparkContext._gateway, SparkContext._jvm, SparkContext._active_spark_context) == (
        None,
        None,
        None,
    )
    assert SparkSession._instantiatedSession is None


def test_a_given_session_that_is_gone_is_refused_in_our_words() -> None:
    stopped: Any = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=None))
    with pytest.raises(EngineError) as caught:
        SparkSessions(stopped, "local[1]", None).main  # noqa: B018
    assert caught.value.code == "SPARK_GONE" and "without spark=" in (caught.value.hint or "")


def test_spark_connect_is_refused_in_our_words() -> None:
    connect: Any = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(EngineError) as caught:
        SparkSessions(connect, "local[1]", None).main  # noqa: B018
    assert caught.value.code == "SPARK_CONNECT"


def test_sessions_of_our_own_keep_others_on_the_machine_out() -> None:
    here = private_settings("local[2]")
    assert here["spark.authenticate"] == "true"
    assert Path(here["spark.python.unix.domain.socket.dir"]).stat().st_mode & 0o077 == 0
    assert len(private_settings("local-cluster[2,1,1024]")["spark.authenticate.secret"]) == 64
    assert private_settings("spark://host:7077") == {}


def test_the_zip_has_the_package(tmp_path: Path) -> None:
    made, home = package_zip(tmp_path), Path(headrace.__file__).parent
    assert made.stat().st_size < 2_000_000
    wanted = {str(path.relative_to(home.parent)) for path in home.rglob("*.py")}
    assert {name for name in ZipFile(made).namelist() if name.endswith(".py")} == wanted
