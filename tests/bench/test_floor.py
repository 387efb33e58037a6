"""`python -m headrace_bench.floor` times what there is."""

from headrace_bench.floor import PHASES, clocked


def test_every_phase_has_something_to_time() -> None:
    with clocked() as clocks:
        assert not clocks.spent
    assert len({(module, name) for _, module, name in PHASES}) == len(PHASES)
