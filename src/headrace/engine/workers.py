"""What the workers of a cluster need: this package, the same Python, and a view of the warehouse.

Tasks of a local master run beside the driver, so that they have all of it. On any other master a small job looks. Where
the package is missing or another version, it is shipped as a zip file for the life of the Spark session.
"""

from __future__ import annotations

import sys
import tempfile
import zipfile
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from headrace.engine.errors import spark_reason
from headrace.engine.spark import is_local
from headrace.model.errors import EngineError
from headrace.model.version import VERSION

_LOOK = """
(
    '.'.join(map(str, __import__('sys').version_info[:2])),
    [
        name
        for name in ('pyarrow', 'numpy', 'numba', 'sqlglot')
        if __import__('importlib.util').util.find_spec(name) is None
    ],
    __import__('os').path.exists({marker!r}),
    __import__('headrace.model.version').model.version.VERSION
    if __import__('importlib.util').util.find_spec('headrace')
    and __import__('importlib.util').util.find_spec('headrace.model.version')
    else None,
)
"""
"""What a worker tells of itself, as an expression: a function of ours could not be loaded where we are missing."""


_WARM_UP = "bool(__import__('headrace.operators.kinds'))"


def refuse_connect(spark: object) -> None:
    """EngineError for a Spark Connect session: epochs are jobs of RDDs, which it does not have."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise EngineError(
            "SPARK_CONNECT",
            "this is a Spark Connect session, and Headrace needs a classic one",
            detail="epochs run as jobs on RDDs, which Spark Connect does not offer",
            hint="give a session that was made with master(...), or none at all; docs/clusters.md says what works",
        )


def equip_workers(spark: SparkSession, root: Path) -> None:
    """Make sure that the workers can run epochs of a warehouse, or raise what they lack. No job on a local master.

    Those workers that are there, and that Spark uses for this, have the kernels afterwards. One that comes later loads
    them in its first task, and compiles them there if nobody has done so on its machine.
    """
    context = spark.sparkContext
    if is_local(context.master or "local"):
        return
    lacking = look(context, root)
    if lacking is None:
        context.addPyFile(str(package_zip(Path(tempfile.mkdtemp(prefix="headrace-package-")))))
        lacking = look(context, root)
    if lacking is None:
        raise worker_error("the package headrace, or have another version of it than the driver")
    if lacking:
        raise worker_error(lacking)
    warm_up(context)


def warm_up(context: SparkContext) -> None:
    """Let the workers that are there now import the kernels, as far as Spark gives each of them a task.

    The first one of a machine compiles them, and not in an epoch.
    """
    tasks = max(context.defaultParallelism, 1)
    try:
        context.parallelize([_WARM_UP] * tasks, tasks).map(eval).collect()
    except Exception as error:
        raise worker_error("something that the kernels need to be loaded", spark_reason(error)) from error


def look(context: SparkContext, root: Path) -> str | None:
    """What a worker lacks: nothing (""), something that we cannot give it, or this package (None)."""
    tasks = max(context.defaultParallelism, 1)
    question = _LOOK.format(marker=str(root / "format.json")).strip()
    try:
        answers = context.parallelize([question] * tasks, tasks).map(eval).collect()
    except Exception as error:
        raise worker_error("a Python that can run tasks of this driver", spark_reason(error)) from error
    ours = ".".join(map(str, sys.version_info[:2]))
    for python, missing, sees_warehouse, version in answers:
        if python != ours:
            return f"Python {ours}, which the driver runs; they have {python}"
        if missing:
            return f"the Python packages {', '.join(missing)}"
        if not sees_warehouse:
            return f"the directory {root}, which must be shared with the driver under the same path"
        if version != VERSION:
            return None
    return ""


def package_zip(folder: Path) -> Path:
    """This package as a zip file that workers can import from."""
    package = Path(__file__).parents[1]
    target = folder / "headrace.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(package.rglob("*")):
            if path.suffix in (".py", ".typed") and path.is_file():
                archive.write(path, Path("headrace") / path.relative_to(package))
    return target


def worker_error(lacking: str, detail: str | None = None) -> EngineError:
    return EngineError(
        "WORKERS_LACK",
        f"the workers of this Spark cluster lack {lacking}",
        detail=detail,
        hint="docs/clusters.md says what a cluster needs",
    )
