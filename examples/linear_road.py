"""Linear Road on Headrace: two expressways with variable tolls, run by an operator of our own, every answer validated.

Cars report their position every 30 seconds. Who enters a segment is told the toll there and is warned of accidents
ahead. The toll rises when many cars are slow. That is no SQL, so it is a split: `create_split` cuts the traffic into
one sub-stream per expressway and runs an instance of the operator for each. Requests for a balance go to all, and a
second split adds up what they answer. This program makes traffic, checks every answer against the rules, and draws the
tolls along the road.

Run it with an optional name for the picture: python examples/linear_road.py tolls.png
"""

import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

import headrace
from headrace.workloads.linear_road import split as road
from headrace.workloads.linear_road.past import PastRule, PastTable
from headrace.workloads.linear_road.play import emitted
from headrace.workloads.linear_road.rules import Kind
from headrace.workloads.linear_road.traffic import Traffic
from headrace.workloads.linear_road.validator import Validator, Verdict

EXPRESSWAYS = 2
TRAFFIC = Traffic(EXPRESSWAYS, seed=7, peak=400, segments=(25, 74), trip=(10, 40), accidents_per_hour=30)
SHOWN = (10_500, 10_620)
"""The two minutes that are shown, in seconds of the run: shortly before the end of the third hour."""

WARM_UP_S = 420
"""Averages look back five minutes, and an accident takes two to be seen, so the traffic begins earlier."""

HISTORY = partial(road.RuledHistory, TRAFFIC.seed, EXPRESSWAYS, TRAFFIC.vehicles)
"""What cars paid in the last ten weeks, by expressway."""

PAST = partial(PastTable.by_rule, TRAFFIC.seed)
"""How fast cars were in the last ten weeks, and what segments cost, by expressway."""


def main(picture: Path) -> None:
    with tempfile.TemporaryDirectory() as folder, headrace.open(folder, progress=False) as hr:
        create(hr)
        seen = list(TRAFFIC.batches(SHOWN[0] - WARM_UP_S, SHOWN[1], rows=60_000))
        started = time.perf_counter()
        for batch in seen:
            hr.append("traffic", pa.Table.from_batches([road.as_tuples(batch)]))
            hr.run_available()
        hr.close_stream("traffic")
        hr.run_available()
        took = time.perf_counter() - started
        answers = {kind: answers_of(hr, kind) for kind in road.OUTPUTS}
        print(hr.split("road").explain())
    tuples = sum(batch.num_rows for batch in seen)
    print(f"{tuples:,} tuples of {EXPRESSWAYS} expressways were answered at {tuples / took:,.0f} per second.")
    verdict = validate(seen, answers)
    print(verdict.render())
    print("Every answer is right." if verdict.ok else "There are faults.")
    draw(picture, along_the_road(seen, answers["tolls"]), last_minute([answers["alerts"]]))
    print(f"The tolls of the last minute are drawn in {picture}.")
    if not verdict.ok:
        sys.exit(1)


def create(hr: headrace.Session) -> None:
    """The traffic, an operator for each expressway, and the sums of balances."""
    hr.create_stream("traffic", road.DDL, event_time=road.EVENT_TIME)
    hr.create_split(
        "road",
        "traffic",
        EXPRESSWAYS,
        route=road.ROUTE,
        broadcast=road.BROADCAST,
        operator=partial(road.RoadOperator, history=HISTORY, past=PAST),
        outputs=road.OUTPUTS,
    )
    hr.create_split(
        "sums",
        "road_balances",
        1,
        route="0",
        operator=partial(road.SumOperator, EXPRESSWAYS),
        schema=road.SUMS,
    )


def answers_of(hr: headrace.Session, kind: str) -> pa.RecordBatch:
    """All answers of a kind; balances are those that were added up."""
    split, rows = ("sums", None) if kind == "balances" else ("road", kind)
    table = hr.split(split).results(rows).toArrow().drop_columns([road.EVENT_TIME])
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def validate(seen: list[pa.RecordBatch], answers: dict[str, pa.RecordBatch]) -> Verdict:
    """Compare all answers with the rules. They are not timed here: the traffic is played as fast as it goes."""
    histories = [HISTORY(xway) for xway in range(EXPRESSWAYS)]
    validator = Validator(
        paid=lambda vid, day, xway: int(histories[xway].paid(one(vid), one(day))[0]),
        past=PastRule(TRAFFIC.seed),
    )
    for batch in seen:
        validator.feed(batch)
    for kind, rows in answers.items():
        validator.check(kind, emitted(rows))
    return validator.verdict()


def one(number: int) -> np.ndarray:
    return np.array([number])


def last_minute(batches: list[pa.RecordBatch]) -> pd.DataFrame:
    """The rows of the last minute, in which no toll changes."""
    rows = pa.Table.from_batches(batches).to_pandas()
    return rows[rows["Time"] >= SHOWN[1] - 60]


def along_the_road(seen: list[pa.RecordBatch], tolls: pa.RecordBatch) -> pd.DataFrame:
    """Toll and speed per expressway, direction and segment. A notification's place is that of its report."""
    reports = last_minute(seen)
    reports = reports[reports["Type"] == Kind.POSITION]
    placed = last_minute([tolls]).merge(reports[["VID", "Time", "XWay", "Dir", "Seg"]], on=["VID", "Time"])
    return placed.groupby(["XWay", "Dir", "Seg"])[["Toll", "LAV"]].first().reset_index()


def draw(picture: Path, road: pd.DataFrame, alerts: pd.DataFrame) -> None:
    """One panel per expressway and direction: tolls as bars, average speeds as a line, accidents in red."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(
        EXPRESSWAYS, 2, figsize=(12, 3.2 * EXPRESSWAYS), sharex=True, squeeze=False
    )
    for xway in range(EXPRESSWAYS):
        for dir_, heading in enumerate(("east", "west")):
            axes, speed = panels[xway][dir_], panels[xway][dir_].twinx()
            part = road[(road["XWay"] == xway) & (road["Dir"] == dir_)]
            axes.bar(part["Seg"], part["Toll"], color="tab:blue", width=0.9)
            speed.plot(part["Seg"], part["LAV"].where(part["LAV"] > 0), color="tab:orange")
            speed.axhline(40, color="tab:orange", linewidth=0.7, linestyle="--")
            speed.set_ylim(0, 75)
            crashes = alerts[(alerts["XWay"] == xway) & (alerts["Dir"] == dir_)]["Seg"].unique()
            for segment in crashes:
                first = segment - 4 if dir_ == 0 else segment
                axes.axvspan(first - 0.5, first + 4.5, color="tab:red", alpha=0.2)
            axes.set_title(
                f"expressway {xway}, {heading}" + (", accident" if len(crashes) else ""), fontsize=10
            )
            axes.set_ylabel("toll", color="tab:blue")
            speed.set_ylabel("average mph", color="tab:orange")
    for axes in panels[-1]:
        axes.set_xlabel("segment (red: an accident here or within four segments ahead, no toll)")
    figure.tight_layout()
    figure.savefig(picture, dpi=110)
    pyplot.close(figure)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "linear_road_tolls.png"))
