"""Spark's exceptions in our words."""

from __future__ import annotations

import re

from pyspark.errors import PySparkException

from headrace.model.errors import CatalogError, EngineError, HeadraceError, LogError, SqlError, StorageError

_BY_PHASE: dict[str, type[HeadraceError]] = {
    cls.phase: cls for cls in (SqlError, CatalogError, LogError, EngineError, StorageError)
}


def reported_error(fields: dict[str, str | None]) -> HeadraceError:
    """The error a task reported."""
    cls = _BY_PHASE.get(fields.get("phase") or "", EngineError)
    return cls(fields["code"] or "", fields["message"] or "", detail=fields["detail"], hint=fields["hint"])


def spark_reason(error: Exception) -> str:
    """One line that says what Spark says: its error condition and message, without stack traces.

    >>> spark_reason(RuntimeError("An error occurred while calling o1.save.\\n: java.io.IOException: broken\\n\\tat x"))
    'java.io.IOException: broken'
    >>> waited = "\\n: x.SparkException: Exception thrown in awaitResult: \\n\\tat x\\nCaused by: java.lang.Oops: y"
    >>> spark_reason(RuntimeError("An error occurred while calling o1.getResult." + waited))
    'java.lang.Oops: y'
    """
    condition = getattr(error, "getCondition", lambda: None)()
    text = str(error).strip()
    if condition == "PYTHON_EXCEPTION":
        return text.splitlines()[-1][:500]
    found = re.search(rf"\[{re.escape(condition)}\]" if condition else r"\[[A-Z][A-Z0-9_.]+\]", text)
    lines = text[found.start() if found else 0 :].split("SQLSTATE")[0].strip().splitlines()
    if found is None and len(lines) > 1 and lines[0].startswith("An error occurred while calling"):
        lines = [
            lines[1].lstrip(": ").split(" executor driver): ")[-1]
        ]  # py4j's own line; the exception follows
        causes = re.findall(r"^Caused by: (.*)", text, re.MULTILINE)
        if lines[0].rstrip().endswith("awaitResult:") and causes:  # it only says that somebody waited
            lines = [causes[-1]]
    return lines[0][:500] if lines else type(error).__name__


def was_cancelled(error: Exception) -> bool:
    """Whether somebody cancelled the job: Ctrl-C, or `cancelJobGroup`. A tuple that merely says so does not."""
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    if condition is not None and condition.startswith("SPARK_JOB_CANCELLED"):
        return True
    text = str(error)
    if condition not in (None, "PYTHON_EXCEPTION") and text.startswith(f"[{condition}]"):
        return False
    return text.startswith("[SPARK_JOB_CANCELLED]") or "SparkException: [SPARK_JOB_CANCELLED]" in text


def query_caused(error: Exception) -> bool:
    """Whether Spark says that an expression failed, rather than a file, a worker or Spark itself.

    Spark gives what a query can cause an error condition, which PySpark raises as its own exception; a lost worker, a
    job that was killed or an unreadable file comes as the bare Java exception.
    """
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    return condition is not None and not file_caused(error)


def file_caused(error: Exception) -> bool:
    """Whether Spark says that it could not read a file."""
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    return condition is not None and condition.startswith(("PATH_NOT_FOUND", "FAILED_READ_FILE"))


def epoch_cancelled(epoch: int) -> EngineError:
    return EngineError(
        "EPOCH_CANCELLED",
        f"epoch {epoch} was stopped before it was done",
        hint="nothing was committed; run again, the epoch is replayed as it was sealed",
    )


def epoch_failed(epoch: int, error: Exception | str) -> EngineError:
    return EngineError(
        "EPOCH_FAILED",
        f"epoch {epoch} could not be run",
        detail=error if isinstance(error, str) else spark_reason(error),
        hint="nothing was committed; fix the cause and run again, the epoch is replayed as it was sealed",
    )


def epoch_unrunnable(epoch: int, reason: str) -> EngineError:
    return EngineError(
        "EPOCH_FAILED",
        f"epoch {epoch} could not be run, and no query is to blame by itself",
        detail=reason,
        hint="nothing was committed; give Spark more memory or mend the cause, and run again. "
        "Dropping queries helps too: a drop takes effect for an epoch that cannot be run",
    )


def spark_stuck(epoch: int) -> EngineError:
    return EngineError(
        "SPARK_STUCK",
        f"Spark does not answer any more: something in epoch {epoch} cannot be interrupted and holds its cores",
        detail="what was acknowledged is in the warehouse, and what is known of the failure is written down",
        hint="close this session, end its Spark, and open the warehouse again; the search for the query that is to "
        "blame goes on from here",
    )


def given_spark_gone() -> EngineError:
    return EngineError(
        "SPARK_GONE",
        "the Spark session that was given is gone: its process has ended, or it was stopped",
        hint="give one that runs, or open the warehouse without spark=, and one is started",
    )


def spark_gone() -> EngineError:
    return EngineError(
        "SPARK_GONE",
        "Spark is gone: its process has ended, or its session was stopped",
        detail="what was acknowledged is in the warehouse: tuples, queries and delivered rows",
        hint="close this session and open the warehouse again; it goes on where it stopped",
    )
