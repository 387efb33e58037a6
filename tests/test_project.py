"""Promises about the project itself: imports point one way, documents are true, no machine is named."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "headrace"
BENCHMARKS = ROOT / "bench" / "headrace_bench"

LAYERS = (
    ("model", "health"),
    ("storage",),
    ("sql",),
    ("catalog",),
    ("log",),
    ("planner",),
    ("optimizer",),
    ("simulate",),
    ("operators",),
    ("engine",),
    ("results",),
    (
        *("sources", "options", "notes", "sparks", "guard"),
        *("asking", "running", "looking"),
        *("handles", "recovering", "open_warehouse", "session", "opening", "__init__"),
    ),
    ("service", "cli"),
)
"""The design's layout, top to bottom; a module imports from its own layer and those above it."""

RANK = {name: i for i, names in enumerate(LAYERS) for name in names}

MAY_IMPORT_SPARK = {
    *("engine", "log", "results", "cli", "service"),
    *("sources", "options", "sparks", "handles", "open_warehouse", "session", "opening"),
    *("asking", "looking"),
}

KERNELS = "operators"
KERNELS_KNOW = ("model", "optimizer")
"""Kernels are handed plans, and decide by the tuples that they see. They know neither planner nor catalog nor files."""

STANDALONE = "workloads"
"""Generators import `model` at most, and only front doors import them."""

COMPILING = "headrace.operators.compiled.compiling"
"""How kernels are compiled and kept is no operator: one module says it for all kernels, those of workloads too."""

BENCH_DOOR = "src/headrace/cli/bench_command.py"
"""The one module of the product that knows of the benchmarks. They are not there in what people install."""

MODULES = sorted(PACKAGE.rglob("*.py"))
BENCH_MODULES = sorted(BENCHMARKS.rglob("*.py"))
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def part_of(path: Path) -> str:
    """The package or top-level module a file belongs to."""
    inside = path.relative_to(PACKAGE).parts
    return inside[0].removesuffix(".py")


def imports_of(path: Path) -> Iterator[tuple[int, str]]:
    """Line and full name of every module a file imports, wherever in the file it does so."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield node.lineno, name.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, (
                f"{relative(path)}:{node.lineno} imports relatively; name the whole module"
            )
            assert node.module
            if node.module == "headrace":
                for name in node.names:
                    yield node.lineno, f"headrace.{name.name}"
            else:
                yield node.lineno, node.module


def headrace_part(module: str) -> str | None:
    """The package or module of ours that an import reaches, None for anybody else's."""
    first, _, rest = module.partition(".")
    if first != "headrace":
        return None
    part = rest.partition(".")[0]
    return part if part and ((PACKAGE / part).is_dir() or (PACKAGE / f"{part}.py").exists()) else "__init__"


def wrong_imports(path: Path) -> Iterator[str]:
    mine = part_of(path)
    for line, module in imports_of(path):
        where = f"{relative(path)}:{line} imports {module}"
        if module.partition(".")[0] in {"pyspark", "py4j"} and mine not in MAY_IMPORT_SPARK:
            yield f"{where}: no Spark in {mine}/"
        if module.partition(".")[0] == "headrace_bench" and relative(path) != BENCH_DOOR:
            yield f"{where}: only {BENCH_DOOR} knows of the benchmarks"
        theirs = headrace_part(module)
        if theirs is None or theirs == mine:
            continue
        if mine == STANDALONE:
            if theirs != "model" and module != COMPILING:
                yield f"{where}: workloads stand alone"
        elif theirs == STANDALONE:
            if mine not in LAYERS[-1]:
                yield f"{where}: only front doors use workloads"
        elif mine == KERNELS and theirs not in KERNELS_KNOW:
            yield f"{where}: kernels know {' and '.join(KERNELS_KNOW)} only"
        elif RANK[theirs] > RANK[mine]:
            yield f"{where}: imports point upwards in the layout only"


def test_imports_point_upwards_and_spark_stays_where_it_runs() -> None:
    parts = {part_of(path) for path in MODULES}
    assert sorted(parts - {*RANK, STANDALONE}) == [], "a new package needs a place in LAYERS"
    assert [wrong for path in MODULES for wrong in wrong_imports(path)] == []


def test_the_firewall_sees_what_it_should(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("test_project.ROOT", tmp_path)
    monkeypatch.setattr("test_project.PACKAGE", tmp_path)
    for part in ("model", "planner", "optimizer", "engine", "operators", "workloads"):
        (tmp_path / part).mkdir()
    bad = tmp_path / "planner" / "bad.py"
    bad.write_text(
        "import pyspark.sql\nfrom headrace.model import x\nfrom headrace.engine.jobs import y\n"
        "def f():\n    from headrace import workloads\n    import headrace_bench.run\n"
    )
    lines = [int(found.split(":")[1].split()[0]) for found in wrong_imports(bad)]
    assert lines == [1, 3, 5, 6]
    kernel = tmp_path / "operators" / "bad.py"
    kernel.write_text(
        "from headrace.model import x\nfrom headrace.planner import y\nfrom headrace.optimizer import z\n"
    )
    assert len(list(wrong_imports(kernel))) == 1


PACKAGE_FILES = [path for path in (*MODULES, *BENCH_MODULES) if path.name == "__init__.py"]


def test_a_package_says_in_one_sentence_what_it_is() -> None:
    for path in PACKAGE_FILES:
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
        assert text, f"{relative(path)} starts with a docstring"
        assert "\n" not in text.strip(), f"{relative(path)}: one sentence on one line; essays go into modules"
        assert text.endswith("."), relative(path)


def test_a_module_starts_by_saying_what_it_is() -> None:
    """One defining sentence per module. That a file begins with a text is seen without parsing all of it."""
    said = re.compile(r'(#!.*\n)?r?"""\S')
    modules = [*MODULES, *BENCH_MODULES]
    assert [relative(path) for path in modules if not said.match(path.read_text(encoding="utf-8"))] == []


def test_every_package_directory_is_a_package() -> None:
    folders = {path.parent for path in (*MODULES, *BENCH_MODULES)}
    assert sorted(relative(folder) for folder in folders if not (folder / "__init__.py").exists()) == []


PATH = re.compile(r"`((?:src|docs|tests|bench|examples|\.ci)/[^`\s*<>]*)`")
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")
MAKE = re.compile(r"`make ([a-z]+)`")


def test_documents_name_only_what_exists() -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        named = [ROOT / name for name in PATH.findall(text)]
        linked = [path.parent / name for name in LINK.findall(text)]
        missing = [str(target) for target in (*named, *linked) if not target.exists()]
        unknown = [target for target in MAKE.findall(text) if target not in targets]
        assert (missing, unknown) == ([], []), relative(path)


def test_the_guide_for_extensions_names_code_that_exists() -> None:
    guide = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    named = sorted(set(re.findall(r"`(_?[a-z]+_[a-z_]+|_[a-z]+)`", guide)))
    assert len(named) > 15 and [name for name in named if not re.search(rf"\b{name}\b", code)] == []


def test_the_readme_shows_the_quickstart_as_it_is() -> None:
    code = (ROOT / "examples" / "quickstart.py").read_text(encoding="utf-8").split('"""\n\n', 1)[1]
    assert f"```python\n{code}```" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_people_install_the_product_and_a_checkout_has_the_benchmarks_too() -> None:
    built = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]
    assert built["targets"]["wheel"]["packages"] == [relative(PACKAGE)]
    assert built["dev-mode-dirs"] == [relative(PACKAGE.parent), relative(BENCHMARKS.parent)]


def test_every_dependency_is_explained() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    named = re.findall(r'^    "([a-z][a-z0-9_-]*)[><=]', project, re.MULTILINE)
    explained = (ROOT / "docs/decisions/0002-dependencies.md").read_text(encoding="utf-8")
    assert len(named) > 10
    assert [name for name in named if f"`{name}`" not in explained] == []


def test_what_is_thorough_raises_every_number_of_random_cases() -> None:
    """A switch that no target sets is a test that never runs longer."""
    tests = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    known = set(re.findall(r'"(HEADRACE_(?:THOROUGH|EXAMPLES|SEEDS|\w*ROUNDS))"', tests))
    (recipe,) = re.findall(
        r"^thorough:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(known) >= 4 and sorted(name for name in known if f"{name}=" not in recipe) == []


def tracked_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()]


MACHINE_PATH = re.compile(r"(?<![\w.~*-])/(?:work|root|home|Users)/\w+")


def test_nothing_is_tied_to_one_machine() -> None:
    found = []
    for path in tracked_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{relative(path)}: {match}" for match in MACHINE_PATH.findall(text)]
    assert found == []


def test_ci_runs_what_people_run() -> None:
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111, ".ci/run must be executable"
    assert "make check" in script.read_text(encoding="utf-8")
