"""What people can ask for in SQL, statement by statement. `sql/statements.py` reads them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class IfPresent(Enum):
    """What CREATE does when the name is taken."""

    REFUSE = "refuse"
    KEEP = "keep"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class CreateStream:
    """`watermark` and the other options are as written; None where the statement does not say."""

    name: str
    schema_ddl: str
    event_time: str | None = None
    watermark: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    if_present: IfPresent = IfPresent.REFUSE


@dataclass(frozen=True, slots=True)
class CreateQuery:
    """`group`, `start` and what is asked for it are as written; None where the statement does not say."""

    name: str
    text: str
    if_present: IfPresent = IfPresent.REFUSE
    group: str | None = None
    start: str | None = None
    needs: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MoveQuery:
    """The query is to live in another group."""

    name: str
    group: str


@dataclass(frozen=True, slots=True)
class AlterNeeds:
    """Something else is asked for a query. The options are as written; what is not named stays."""

    name: str
    needs: dict[str, str]


@dataclass(frozen=True, slots=True)
class Repartition:
    """Keys are to be spread over so many partitions."""

    partitions: int


@dataclass(frozen=True, slots=True)
class DropStream:
    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropQuery:
    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropSplit:
    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class AlterSplit:
    """Another number of sub-streams, and another route when the statement has one."""

    name: str
    q: int
    route: str | None = None


@dataclass(frozen=True, slots=True)
class CloseStream:
    name: str


@dataclass(frozen=True, slots=True)
class Describe:
    """Of a stream or a query; `what` is "stream" or "query" when the statement says which."""

    name: str
    what: str | None = None


@dataclass(frozen=True, slots=True)
class Insert:
    """`values` is the text from VALUES on; `columns` is empty when the statement names none."""

    stream: str
    columns: tuple[str, ...]
    values: str


@dataclass(frozen=True, slots=True)
class ShowStreams:
    pass


@dataclass(frozen=True, slots=True)
class ShowQueries:
    pass


@dataclass(frozen=True, slots=True)
class ShowGroups:
    pass


@dataclass(frozen=True, slots=True)
class ShowSplits:
    pass


@dataclass(frozen=True, slots=True)
class ShowEvents:
    pass


@dataclass(frozen=True, slots=True)
class ShowPredictions:
    pass


@dataclass(frozen=True, slots=True)
class ShowFunctions:
    pass


@dataclass(frozen=True, slots=True)
class Explain:
    """Of a query by name, of a text that begins with SELECT, WITH or FROM, or (None) of everything."""

    name_or_text: str | None = None
    verbose: bool = False
    is_text: bool = False


@dataclass(frozen=True, slots=True)
class Help:
    """`topic` is as written, without punctuation; None asks for the list of statements."""

    topic: str | None = None


@dataclass(frozen=True, slots=True)
class Select:
    text: str


Statement = (
    CreateStream
    | CreateQuery
    | MoveQuery
    | AlterNeeds
    | Repartition
    | DropStream
    | DropQuery
    | DropSplit
    | AlterSplit
    | CloseStream
    | Describe
    | Insert
    | ShowStreams
    | ShowQueries
    | ShowGroups
    | ShowSplits
    | ShowEvents
    | ShowPredictions
    | ShowFunctions
    | Explain
    | Help
    | Select
)
