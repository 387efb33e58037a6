"""What an epoch of a split failed with, in our words: is its code to blame, or is it to be run again?"""

from __future__ import annotations

from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.engine.errors import (
    epoch_cancelled,
    query_caused,
    spark_gone,
    spark_reason,
    was_cancelled,
)
from headrace.engine.spark import is_gone
from headrace.engine.splits.calls import noted_calls
from headrace.engine.splits.faults import OPERATOR, bad_expression, run_again, too_slow
from headrace.engine.splits.losses import LostIn
from headrace.engine.splits.workers import WorkerCancelled
from headrace.model.errors import EngineError
from headrace.model.splits import Split


def explained(split: Split, spark: SparkSession, epoch: int, error: Exception, folder: Path) -> Exception:
    """What to raise for what Spark or a worker raised. `folder` has the notes of the workers."""
    if isinstance(error, WorkerCancelled) or was_cancelled(error):
        return epoch_cancelled(epoch)
    if is_gone(spark):
        return spark_gone()
    calls = noted_calls(folder)
    stuck = next((call.what for call in calls if call.stuck), None)
    if stuck is not None and split.call_us is not None:
        return too_slow(split.name, stuck, split.call_us / 1e6)
    if calls and not query_caused(error):
        return LostIn(calls[0])
    if isinstance(error, PySparkException) and error.getCondition() == "PYTHON_EXCEPTION":
        return EngineError(
            OPERATOR,
            f"the code of split `{split.name}` cannot be run by Spark's workers",
            detail=spark_reason(error),
            hint="modules that it imports must be there for the workers; then call restart_split",
        )
    if query_caused(error):
        return bad_expression(split.name, spark_reason(error))
    return run_again(split.name, epoch, spark_reason(error))
