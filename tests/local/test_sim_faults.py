"""The switchboard fires what was asked for, where and as often as asked, and counts it."""

from __future__ import annotations

from typing import Any

import pytest

from local.sim_faults import FAULTS, Faults


def test_count_is_how_often_a_fault_fires() -> None:
    faults = Faults()
    faults.set("error_500", "pods", count=2)
    fired = [faults.take(("error_500",), "pods", "list") is not None for _ in range(4)]
    assert fired == [True, True, False, False]
    assert faults.fired == {"error_500": 2}
    assert faults.active() == []


def test_without_a_count_it_lasts_until_cleared() -> None:
    faults = Faults()
    fault = faults.set("mute")
    assert all(faults.take(("mute",), "pods", "watch") is fault for _ in range(5))
    faults.clear("mute")
    assert fault.over
    assert faults.take(("mute",), "pods", "watch") is None


def test_resource_and_verb_confine_a_fault() -> None:
    faults = Faults()
    faults.set("throttle_429", "deployments.apps", verb="list", retry_after=3)
    missed = [("pods", "list"), ("deployments.apps", "watch"), ("deployments", "list")]
    assert [faults.take(("throttle_429",), *where) for where in missed] == [None] * 3
    hit = faults.take(("throttle_429",), "deployments.apps", "list")
    assert hit is not None
    assert hit.options == {"retry_after": 3}


def test_clear_spares_other_resources() -> None:
    faults = Faults()
    faults.set("cut", "pods")
    faults.set("cut", "secrets")
    faults.clear(resource="pods")
    assert [fault["resource"] for fault in faults.active()] == ["secrets"]


def test_each_change_is_told() -> None:
    told: list[None] = []
    faults = Faults(lambda: told.append(None))
    faults.set("cut", count=1)
    faults.clear()
    assert len(told) == 2


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_what_is_shown_can_be_set_again(name: str) -> None:
    faults = Faults()
    faults.set(name, "pods", 3, verb="watch")
    (shown,) = faults.active()
    again = Faults()
    again.set(**shown)
    assert again.active() == [shown]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "gone_410"}, "unknown fault 'gone_410': use one of cut"),
        ({"name": "cut", "after": 3}, "fault cut has no option after: it takes verb, after_bytes"),
        ({"name": "cut", "verb": "get"}, "verb 'get'"),
        ({"name": "cut", "count": 0}, "count 0"),
        ({"name": "cut", "count": True}, "count True"),
        ({"name": "expired_410", "mode": "late"}, "mode 'late'"),
        ({"name": "late", "seconds": "1"}, "seconds '1'"),
    ],
)
def test_mistakes_are_refused_with_what_is_allowed(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Faults().set(**arguments)
