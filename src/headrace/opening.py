"""`headrace.open`: the one way into a warehouse, with every option named, typed and explained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headrace.engine.options import UpkeepOptions
from headrace.log.seal import DEFAULT_MAX_EPOCH_ROWS
from headrace.options import Duration, Options
from headrace.session import Session


def open(
    path: str | Path,
    *,
    spark: SparkSession | None = None,
    master: str = "local[*,4]",
    config: dict[str, str] | None = None,
    max_epoch_rows: int = DEFAULT_MAX_EPOCH_ROWS,
    changelog_count: int = 100,
    changelog_delay: Duration = "1 second",
    partitions: int | None = None,
    backfill_tasks: int | None = None,
    retention: Duration | None = "7 days",
    log_retention: Duration | None = "1 day",
    epoch_timeout: Duration | None = "10 minutes",
    query_timeout: Duration | None = "5 minutes",
    progress: bool | None = None,
    read_only: bool = False,
    rebuild: bool = False,
    sharing: str = "functional",
    upkeep: UpkeepOptions | None = None,
    functions: Mapping[str, tuple[Callable[..., Any], str]] | None = None,
    function_timeout: Duration | None = "1 minute",
) -> Session:
    """Open a warehouse for writing, creating it when absent. Use the session in a `with` block, or `close()` it.

    Rows do not depend on the settings of the Spark session, which stay as they are.

    Args:
        path: The warehouse, a directory. One process at a time writes to it.
        spark: The Spark session to use. Without one, the running session is used. If none runs, one is started
            with `master` and `config`, and stopped when the warehouse is closed.
        master: The Spark master of a session that is started here.
        config: Spark settings of a session that is started here.
        max_epoch_rows: Tuples that one epoch takes in at most; what is over waits for the next one.
        changelog_count: So many query changes make one changelog at most. Each of them is on disk before the call
            that asked for it returns, whatever this says.
        changelog_delay: So long a query change waits for others at most, when epochs run in the background.
        partitions: How many tasks keys are spread over. None: as many as Spark has cores, or what `repartition` said
            last. It may differ from one opening to the next.
        backfill_tasks: So many tasks a query takes at most while it catches up (see `start` of `create_query`); None:
            as many as the others.
        retention: How long results are kept after their epoch, e.g. `"7 days"`; None: for ever.
        log_retention: How long tuples are kept after their epoch, if no open window needs them; None: for ever.
        epoch_timeout: After so long an epoch is stopped, and the query that holds it up is looked for and quarantined.
            An epoch that is slow through the sum of all queries is then run without a limit. None: never stopped.
        query_timeout: How long what one query does by itself may take in an epoch; None: no limit.
        progress: Whether `run_available` shows a progress bar; None: on a terminal only.
        read_only: Read what is committed, beside any writer, and change nothing.
        rebuild: Derive all state anew from the log, when state was lost or damaged.
        sharing: Who shares work with whom. "functional": queries share where that slows nobody, and are split off when
            somebody would be faster alone. "isolated": each has a group of its own, as far as the driver can run them.
            "full": all that read the same streams are one group. "overlap": those whose filters overlap. "selectivity":
            those that select few tuples, and those that select many. "manual": all are in the main group but for those
            that people put elsewhere.
        upkeep: How often upkeep looks at files; the defaults suit all but tests.
        functions: Functions of your own to register before anything is run or rebuilt, by name: the function, and the
            type of its values. See `Session.register_function`.
        function_timeout: As `epoch_timeout` and `query_timeout`, for epochs in which such functions are called: one
            that never returns would hold up all who share with it. An epoch of more than 100,000 tuples gets so much
            for each 100,000. All get ten times what the last ones took, or what the `cost` of the functions lets
            expect, and `epoch_timeout` at most. A query is quarantined only if it takes longer than `query_timeout` by
            itself, too. Queries that plain Spark runs have `query_timeout` alone. None: those limits alone.
    """
    return Session(
        path,
        Options(
            spark,
            master,
            config,
            max_epoch_rows,
            changelog_count,
            changelog_delay,
            partitions,
            backfill_tasks,
            retention,
            log_retention,
            epoch_timeout,
            query_timeout,
            progress,
            read_only,
            rebuild,
            sharing,
            upkeep or UpkeepOptions(),
            functions,
            function_timeout,
        ),
    )
