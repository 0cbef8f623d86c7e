"""A storm is decided by its seed, and holds every fault that a run must have."""

from __future__ import annotations

from tests.chaos.schedule import (
    HOSTILE,
    LARGE,
    LEADERS,
    NETWORK,
    PROCESS_FAULTS,
    PROCESSES,
    SERVERS,
    Fault,
    storm,
)

LONG = (PROCESSES, NETWORK, SERVERS)
TWENTY_MINUTES = 1200


def test_the_same_seed_makes_the_same_storm_and_another_another():
    assert storm(1, 600, LONG, LARGE) == storm(1, 600, LONG, LARGE)
    assert storm(1, 600, LONG, LARGE) != storm(2, 600, LONG, LARGE)


def test_strikes_come_in_order_and_within_the_time():
    strikes = storm(3, 300, LONG, LARGE)
    assert [strike.at_s for strike in strikes] == sorted(strike.at_s for strike in strikes)
    assert all(0 < strike.at_s <= 300 for strike in strikes)
    assert all(0 <= strike.pick < 1 for strike in strikes)


def test_twenty_minutes_have_a_hundred_process_faults_and_every_kind_of_fault():
    for seed in range(20):
        strikes = storm(seed, TWENTY_MINUTES, LONG, LARGE)
        assert sum(strike.fault in PROCESS_FAULTS for strike in strikes) > 150
        wanted = {fault for family in LONG for fault in family.weights} | set(LARGE)
        missing = wanted - {strike.fault for strike in strikes}
        assert len(missing) <= 2, missing


def test_families_do_not_disturb_each_other():
    """Adding one must not change what a seed that failed has shown."""
    alone = storm(5, 300, LONG, {})
    assert [s for s in storm(5, 300, (*LONG, LEADERS), LARGE) if s in set(alone)] == list(alone)


def test_the_hostile_storm_spares_processes():
    strikes = storm(1, TWENTY_MINUTES, HOSTILE, {})
    assert not {strike.fault for strike in strikes} & PROCESS_FAULTS
    assert {Fault.CHURN_CRD, Fault.REVOKE_ONE, Fault.COMPACT_ETCD} <= {strike.fault for strike in strikes}
