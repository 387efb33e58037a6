"""`make kernels` times every compiled kernel, directly or by what calls it."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
BENCHMARKS = sorted((ROOT / "bench" / "kernels").glob("*.py"))
HOMES = {
    "headrace.operators.compiled": ROOT / "src/headrace/operators/compiled",
    "headrace.workloads.linear_road": ROOT / "src/headrace/workloads/linear_road",
}

WRAPPED = {
    "headrace.operators.compiled.joins.pair_groups": "headrace.operators.join.probing.pairs_of_groups",
    "headrace.operators.compiled.joins.probe_ranges": "headrace.operators.join.probing.probe",
    "headrace.operators.compiled.keys.number_far": "headrace.operators.common.keys.encode_keys",
    "headrace.operators.compiled.keys.number_near": "headrace.operators.common.keys.encode_keys",
    "headrace.operators.compiled.runs.find_runs": "headrace.operators.sessions.micro.merge_runs",
    "headrace.operators.compiled.sparse.list_distinct": "headrace.operators.windows.segment.few_distinct",
    "headrace.workloads.linear_road.kernels.come_to_stop": "headrace.workloads.linear_road.kernels.drive",
    "headrace.workloads.linear_road.kernels.drive_on": "headrace.workloads.linear_road.kernels.drive",
    "headrace.workloads.linear_road.kernels.find_vehicle": "headrace.workloads.linear_road.kernels.drive",
}
"""What a benchmark calls to time a kernel that it does not call itself."""


def kernels() -> set[str]:
    """The functions that `@compiled` decorates, with their modules."""
    found = set()
    for module, folder in HOMES.items():
        for path in folder.glob("*.py"):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.FunctionDef) and any(
                    isinstance(one, ast.Call) and ast.unparse(one.func) == "compiled"
                    for one in node.decorator_list
                ):
                    found.add(f"{module}.{path.stem}.{node.name}")
    return found


def timed() -> set[str]:
    """What benchmarks import and mention again."""
    found = set()
    for path in BENCHMARKS:
        tree = ast.parse(path.read_text())
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        for node in tree.body:
            if isinstance(node, ast.ImportFrom):
                here = (one for one in node.names if (one.asname or one.name) in used)
                found |= {f"{node.module}.{one.name}" for one in here}
    return found


def test_every_kernel_has_a_benchmark() -> None:
    every, known = kernels(), timed()
    assert len(every) > 60
    assert not {kernel for kernel in every if WRAPPED.get(kernel, kernel) not in known}
    assert WRAPPED.keys() <= every, "a kernel that is gone"
