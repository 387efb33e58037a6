"""The version of this package, where driver and workers both find it."""

from __future__ import annotations

VERSION = "0.1.0"
