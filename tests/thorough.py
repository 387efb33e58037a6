"""Tests that take long and repeat, another way, what others show: they run when asked for."""

import os

import pytest

THOROUGH = pytest.mark.skipif(
    not os.environ.get("HEADRACE_THOROUGH"), reason="takes a minute more: HEADRACE_THOROUGH=1 runs it"
)
