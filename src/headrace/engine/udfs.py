"""Registered functions as Spark knows them: what Spark runs by itself calls the same code as tasks do.

Audits and plain Spark call a function by its own name. Expressions that Spark evaluates for a query call it by a name
of ours, with one argument more that says for which rows it is wanted.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.functions import ArrowUDFType, arrow_udf

from headrace.engine.functions import loaded
from headrace.engine.spark import active
from headrace.model.types import SqlType
from headrace.operators.common.calls import Caller, LoadedFunction, spread
from headrace.sql.bodies.registered import GUARDED


def register_udf(spark: SparkSession, name: str, type_: SqlType, code: bytes) -> None:
    """Let what runs in a session call a function, which is `pickled`, by both of its names."""

    def call(arguments: Sequence[pa.Array]) -> pa.Array:
        return Caller(lambda _: LoadedFunction(loaded(name, code), type_)).call(name, arguments)

    def plain(*arguments: pa.Array) -> pa.Array:
        return call(arguments)

    def guarded(wanted: pa.Array, *arguments: pa.Array) -> pa.Array:
        at = np.flatnonzero(np.asarray(wanted.fill_null(False)))
        taken = [argument.take(pa.array(at)) for argument in arguments]
        return spread(call(taken), at, len(wanted))

    warnings.filterwarnings(
        "ignore", "It is preferred to specify type hints", UserWarning, r"pyspark\.sql\..*"
    )
    with active(spark):
        for as_name, body in ((name, plain), (f"{GUARDED}{name}", guarded)):
            spark.udf.register(as_name, arrow_udf(body, type_.ddl, ArrowUDFType.SCALAR))
