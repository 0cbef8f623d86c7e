"""A case that does not go as its script says fails, with a reason; none passes because nobody looked."""

from __future__ import annotations

import logging

import pytest

from tests.cases import harness, loader
from tests.cases.compare import compare
from tests.cases.harness import Harness
from tests.cases.processes import CaseFailed

LIST = {"to": "list", "want": {"resourceVersion": ""}, "list": {"rv": "8", "items": [{"uid": "x", "rv": "5"}]}}
EXPECT = {
    "changes": {"x": [{"op": "SNAPSHOT", "rv": "5", "seq": 1}]},
    "gaps": [],
    "converges": {"x": "5"},
    "resolved": "9",
}


def watch(rv, *frames):
    return {"to": "watch", "want": {"resourceVersion": rv}, "stream": list(frames)}


def case(*steps, **rest):
    return loader.parse({"id": "a", "steps": list(steps), "expect": EXPECT} | rest)


def test_a_case_that_goes_well(tmp_path):
    good = case(LIST, watch("8", {"B": "9"}))
    level = logging.getLogger().level
    assert compare(good, Harness(good, tmp_path).play()) == []
    assert logging.getLogger().level == level


def test_another_request_than_expected(tmp_path):
    with pytest.raises(CaseFailed, match="expected was watch"):
        Harness(case(LIST, watch("7", {"B": "9"})), tmp_path).play()


def test_a_request_too_many(tmp_path):
    with pytest.raises(CaseFailed, match="expected was nothing"):
        Harness(case(LIST, watch("8", {"B": "9"}, {"E": {"code": 410, "reason": "Expired"}})), tmp_path).play()


def test_a_request_that_never_comes(tmp_path, monkeypatch):
    monkeypatch.setattr(harness, "DEADLINE_S", 2.0)
    with pytest.raises(CaseFailed, match=r"not finished in 2 s: p1 v1/configmaps \(waits for list"):
        Harness(case(LIST, watch("8", {"B": "9"}), LIST), tmp_path).play()


def test_a_producer_that_cannot_start(tmp_path):
    with pytest.raises(CaseFailed, match="ended by itself"):
        Harness(case({"do": "token", "server": "other"}, LIST), tmp_path).play()


def test_a_processor_that_never_comes_to_its_crash(tmp_path):
    crashing = case(LIST, watch("8", {"B": "9"}), {"do": "settle"}, {"do": "crash-processor", "at": ["after_commit"]})
    with pytest.raises(CaseFailed, match="never came to after_commit"):
        Harness(crashing, tmp_path, "after_commit").play()


def test_the_story_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(harness, "DEADLINE_S", 3.0)
    with pytest.raises(CaseFailed, match="SNAPSHOT x@5") as failed:
        Harness(case(LIST, watch("8", {"B": "9"}), {"do": "settle"}, watch("1")), tmp_path).play()
    assert "requests:" in str(failed.value)


def test_all_that_leaves_is_searched(tmp_path):
    spoken = case(LIST, watch("8", {"B": "9"}))
    outcome = Harness(spoken, tmp_path).play()
    for text, where in (
        ("creationTimestamp", "a topic"),
        ("kubecdc_producer_events", "a metrics page"),
        ("RELIST_END", "the log"),
    ):
        assert any(text.encode() in data for place, data in outcome.left if place == where), where
