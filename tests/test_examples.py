"""What the README and the examples show works as it is shown."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.session import QueryHandle, Session
from headrace.sql import Select, parse_statement
from headrace.workloads import gaming

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def snippets(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


@pytest.mark.spark
def test_the_quickstart_runs_and_prints_the_rows(tmp_path: Path) -> None:
    example = ROOT / "examples" / "quickstart.py"
    done = subprocess.run(
        [sys.executable, str(example)], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    header, *lines, verdict = done.stdout.splitlines()
    assert header.split() == ["gemPackID", "since", "spend"]
    rows = {(int(pack), f"{day} {time}"): float(spend) for _, pack, day, time, spend in map(str.split, lines)}
    assert rows == {
        (7, "2026-01-01 11:59:55"): 14.98,
        (7, "2026-01-01 12:00:00"): 14.98,
        (8, "2026-01-01 12:00:05"): 19.99,
        (8, "2026-01-01 12:00:10"): 19.99,
    }
    assert verdict == "equal to plain Spark: True"


@pytest.mark.spark
def test_the_readme_s_queries_are_queries(open_session: Callable[..., Any]) -> None:
    hr = open_session()
    hr.create_stream(gaming.STREAM, gaming.DDL, event_time=gaming.EVENT_TIME, watermark=gaming.WATERMARK)
    hr.create_stream(
        "ads", "userID BIGINT, campaign STRING, ts TIMESTAMP", event_time="ts", watermark="1 second"
    )
    texts = snippets("sql")
    assert len(texts) >= 2
    for text in texts:
        assert isinstance(parse_statement(text), Select)
        explained = hr.explain(text)
        assert "shared" in explained and "not shared" not in explained, text
        hr.create_query(text)


def test_the_readme_s_calls_exist() -> None:
    called = set()
    for text in snippets("python"):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                called.add((node.value.id, node.attr))
    faces = {"hr": Session, "q": QueryHandle, "spend": QueryHandle}
    ours = {(name, attribute) for name, attribute in called if name in faces}
    assert len(ours) > 12
    assert [pair for pair in sorted(ours) if not hasattr(faces[pair[0]], pair[1])] == []


def test_the_readme_s_commands_exist() -> None:
    from headrace.cli.main import COMMANDS

    named = set(re.findall(r"`headrace ([a-z]+)", README))
    assert named and named <= set(COMMANDS)


def nexmark_example() -> Any:
    spec = importlib.util.spec_from_file_location("nexmark_example", ROOT / "examples" / "nexmark.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.spark
def test_nexmark_s_plain_queries_mean_something_to_spark(spark: Any) -> None:
    example = nexmark_example()
    site = example.SITE.events(0, 8_000)
    for stream, table in site.items():
        spark.createDataFrame(table).createOrReplaceTempView(stream)
    try:
        plain = {name: asked.text for name, asked in example.QUERIES.items() if "[RANGE" not in asked.text}
        assert set(plain) == {"q3", "q8", "q9", "q11"}
        for name, text in plain.items():
            assert spark.sql(text).count() > 0, name
    finally:
        for stream in site:
            spark.catalog.dropTempView(stream)


@pytest.mark.spark
def test_nexmark_runs_and_equals_plain_spark(spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """On the running Spark: the other example shows that a program starts its own."""
    example = nexmark_example()
    example.main()
    verdicts = [line for line in capsys.readouterr().out.splitlines() if "equal to plain Spark" in line]
    assert len(verdicts) == len(example.QUERIES)
    assert all(re.match(r"[1-9][\d,]* rows, equal to plain Spark: True", line) for line in verdicts), verdicts


@pytest.mark.spark
def test_linear_road_answers_rightly_and_draws_the_tolls(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = importlib.util.spec_from_file_location("road_example", ROOT / "examples" / "linear_road.py")
    assert spec is not None and spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    small = replace(example.TRAFFIC, seconds=600, peak=40, segments=(45, 48), trip=(4, 10))
    monkeypatch.setattr(example, "TRAFFIC", small)
    monkeypatch.setattr(example, "SHOWN", (420, 540))
    example.main(tmp_path / "tolls.png")
    assert "Every answer is right." in capsys.readouterr().out
    assert (tmp_path / "tolls.png").stat().st_size > 10_000
