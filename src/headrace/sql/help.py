"""HELP: every statement in a few lines. `docs/sql.md` says the same at length, with examples that are run."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.model.errors import SqlError, did_you_mean

PAGE = "docs/sql.md"


@dataclass(frozen=True, slots=True)
class Topic:
    """`syntax` is the grammar, `says` what it does, `anchor` the section of the page."""

    name: str
    syntax: str
    says: str
    anchor: str

    @property
    def text(self) -> str:
        return f"{self.syntax}\n\n{self.says}\n\nMore: {PAGE}#{self.anchor}"


TOPICS = (
    Topic(
        "CREATE STREAM",
        "CREATE STREAM [IF NOT EXISTS] name (column TYPE, ...)\n"
        "    EVENT TIME column [WATERMARK 'duration'] [WITH (option = 'value', ...)]",
        "Defines a named input: a folder of files, or what INSERT INTO and append() bring.\n"
        "WITH (path = '/folder', format = 'json') reads a folder of files. Without a path the stream is fed by\n"
        "INSERT INTO and by append() in Python.",
        "create-stream",
    ),
    Topic(
        "CREATE QUERY",
        "CREATE [OR REPLACE] QUERY [IF NOT EXISTS] name\n    [IN GROUP group] [START 'moment']\n"
        "    [WITH (min_rate = number, max_latency = 'duration', priority = number)] AS SELECT ...",
        "Starts a continuous query over streams. It is active from the next epoch on.\n"
        "IN GROUP lets it share its work with the queries of that group only, so that others do not slow it down.\n"
        "START 'earliest', '2 hours ago' or TIMESTAMP '...' lets it begin in the past, with what the log still has.\n"
        "WITH says what it needs: tuples per second, how far behind its input it may be, and who runs first.",
        "create-query",
    ),
    Topic(
        "ALTER QUERY",
        "ALTER QUERY name SET GROUP group\n"
        "ALTER QUERY name SET (min_rate = number, max_latency = 'duration', priority = number)",
        "Lets a query live in another group. It delivers all its rows meanwhile.\n"
        "Or asks for something else for it. What is not named stays, and NONE takes back what was asked for.",
        "alter-query",
    ),
    Topic(
        "ALTER SPLIT",
        "ALTER SPLIT name SET q = number [, route = 'expression']",
        "Gives a split another number of sub-streams from its next epoch on. Its state moves along.",
        "alter-split",
    ),
    Topic(
        "ALTER WAREHOUSE",
        "ALTER WAREHOUSE SET PARTITIONS number",
        "Spreads keys over so many partitions from the next epoch on: tasks that run side by side.",
        "alter-warehouse",
    ),
    Topic("DROP QUERY", "DROP QUERY [IF EXISTS] name", "Ends a query. Its results stay.", "drop-query"),
    Topic(
        "DROP STREAM",
        "DROP STREAM [IF EXISTS] name",
        "Removes a stream that no live query reads.",
        "drop-stream",
    ),
    Topic(
        "DROP SPLIT",
        "DROP SPLIT [IF EXISTS] name",
        "Ends a split. Its output streams stay, and get no more input.",
        "drop-split",
    ),
    Topic(
        "CLOSE STREAM",
        "CLOSE STREAM name",
        "Says that no more input comes: with the next epoch every open window closes.",
        "close-stream",
    ),
    Topic(
        "INSERT INTO",
        "INSERT INTO stream [(column, ...)] VALUES (value, ...), ...",
        "Adds rows to a stream. The next epoch takes them in.",
        "insert-into",
    ),
    Topic(
        "SELECT",
        "SELECT ... FROM query_or_stream ...",
        "Reads the rows that queries have delivered so far, or the recent rows of a stream. Any Spark SQL works.",
        "select",
    ),
    Topic("DESCRIBE", "DESCRIBE [STREAM | QUERY] name", "Shows columns, types and more of one.", "describe"),
    Topic(
        "SHOW",
        "SHOW STREAMS\nSHOW QUERIES\nSHOW GROUPS\nSHOW SPLITS\nSHOW EVENTS\nSHOW PREDICTIONS\nSHOW FUNCTIONS",
        "Lists all of them.",
        "show",
    ),
    Topic(
        "EXPLAIN",
        "EXPLAIN [VERBOSE] [name | SELECT ...]",
        "Says how a query runs: what it shares, its windows, its watermark and what it costs.",
        "explain",
    ),
    Topic("HELP", "HELP [statement]", "Shows this list, or the grammar of one statement.", "help"),
)


def help_text(topic: str | None) -> str:
    """The list of statements, or what is to say about one; SqlError when there is no such statement.

    >>> help_text("drop query").splitlines()[0]
    'DROP QUERY [IF EXISTS] name'
    """
    if topic is None:
        lines = [f"  {found.name:<17}{found.says.splitlines()[0]}" for found in TOPICS]
        return "\n".join(
            ["Statements:", *lines, "", f"HELP CREATE STREAM shows its grammar. All of it: {PAGE}"]
        )
    wanted = topic.upper().split()
    found = [t for t in TOPICS if t.name.split()[: len(wanted)] == wanted or t.name.split() == wanted[:1]]
    found = found or [t for t in TOPICS if wanted[-1] in t.name.split()]
    if not found:
        hint = did_you_mean(topic.upper(), [t.name for t in TOPICS])
        raise SqlError("NO_HELP", f"there is no help on {topic}", hint=hint)
    return "\n\n\n".join(t.text for t in found)
