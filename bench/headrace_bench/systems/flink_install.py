"""Flink's own virtual environment: `apache-flink` from PyPI, and its Parquet format from Maven Central."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from headrace.model.errors import HeadraceError

VENV = "HEADRACE_FLINK_VENV"
"""Names the environment's folder; `.venv-flink` in the current one if it is not set."""

RELEASE = "2.3"
PYTHONS = ("3.11", "3.12")
INSTALLED, JARS = "flink-version", "jars"


class FlinkError(HeadraceError):
    """Flink cannot be installed, or has failed."""

    phase = "bench"


def install_flink() -> Path:
    """Where Flink is: installed by pip and Maven the first time, which takes minutes, then only found."""
    venv = Path(os.environ.get(VENV, ".venv-flink")).absolute()
    if (venv / INSTALLED).exists():
        return venv
    maven = shutil.which("mvn")
    if maven is None:
        raise FlinkError(
            "FLINK_INSTALL", "Flink's Parquet format cannot be fetched without Maven", hint="install `mvn`"
        )
    run("make a virtual environment", find_python(), "-m", "venv", "--clear", str(venv))
    python = str(python_of(venv))
    run("install Flink", python, "-m", "pip", "install", "--quiet", f"apache-flink=={RELEASE}.*")
    version = next(pyflink_of(venv).glob("lib/flink-dist-*.jar")).stem.removeprefix("flink-dist-")
    jar = f"-Dartifact=org.apache.flink:flink-sql-parquet:{version}"
    place = f"-DoutputDirectory={venv / JARS}"
    run("fetch Flink's Parquet format", maven, "--quiet", "--batch-mode", "dependency:copy", jar, place)
    (venv / INSTALLED).write_text(version)
    return venv


def find_python() -> str:
    """A Python that Flink supports: ours, or another one that is on the path."""
    ours = f"{sys.version_info.major}.{sys.version_info.minor}"
    found = [sys.executable] if ours in PYTHONS else []
    found += [path for version in PYTHONS if (path := shutil.which(f"python{version}"))]
    if not found:
        raise FlinkError(
            "FLINK_INSTALL", f"Flink {RELEASE} needs Python {', '.join(PYTHONS)}", hint="put one on the path"
        )
    return found[0]


def run(what: str, *command: str) -> None:
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if ended.returncode:
        last = ended.stdout.strip().splitlines()[-5:]
        raise FlinkError("FLINK_INSTALL", f"could not {what}", detail="\n".join(last), hint=" ".join(command))


def python_of(venv: Path) -> Path:
    return venv / "bin" / "python"


def pyflink_of(venv: Path) -> Path:
    return next(venv.glob("lib/python3.*/site-packages/pyflink"))
