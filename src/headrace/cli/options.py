"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from headrace.cli.face import QueryInfo
from headrace.model.errors import CatalogError, did_you_mean

WAREHOUSE = "./headrace-warehouse"


def warehouse_option(default: str = WAREHOUSE) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(
        "--warehouse",
        metavar="DIR",
        default=default,
        show_default=True,
        help="Directory that holds the streams, the queries and their results.",
    )


def need_names(names: Sequence[str], everything: bool) -> None:
    if bool(names) == everything:
        raise click.UsageError("name one or more queries, or say --all")


def known_query(name: str, known: Sequence[QueryInfo]) -> QueryInfo:
    """The query of that name, the youngest when the name was used more than once."""
    found = [info for info in known if info.name.lower() == name.lower()]
    if not found:
        raise CatalogError(
            "QUERY_NOT_FOUND",
            f"there is no query `{name}`",
            hint=did_you_mean(name, {info.name for info in known}),
        )
    return found[-1]
