"""Exactly what is asked for is given, and what concerns it is not hidden."""

from __future__ import annotations

import pytest

from kubecdc.matching import Match
from kubecdc.records import Cause
from tests.kubecdc.making import change, gap, progress

POD = change(cluster="c", namespace="a", name="p", uid="u1")
DEPLOYMENT = change(group="apps", resource="deployments", uid="u2")


@pytest.mark.parametrize(
    "match",
    [
        Match(),
        Match(cluster="c"),
        Match(resources=("secrets", "pods")),
        Match(resources=("*",)),
        Match(namespace="a", name="p", uid="u1"),
    ],
)
def test_what_is_asked_for(match: Match):
    assert match(POD)


@pytest.mark.parametrize(
    "match",
    [
        Match(cluster="d"),
        Match(resources=("pods.apps",)),
        Match(resources=("pod",)),
        Match(namespace="b"),
        Match(name="q"),
        Match(uid="u2"),
    ],
)
def test_what_is_not_asked_for(match: Match):
    assert not match(POD)


def test_groups_are_part_of_a_kind_s_name():
    assert Match(resources=("deployments.apps",))(DEPLOYMENT)
    assert Match(resources=("*.apps",))(DEPLOYMENT)
    assert not Match(resources=("deployments",))(DEPLOYMENT)
    assert not Match(resources=("*",))(DEPLOYMENT)


def test_a_stream_s_gap_concerns_every_object_of_it():
    everywhere, scoped = gap(Cause.RELIST_WINDOW, "1", "2"), gap(Cause.RELIST_WINDOW, "1", "2", scope="a")
    assert Match(namespace="a", name="p", uid="u1")(everywhere)
    assert Match(namespace="a")(scoped)
    assert not Match(namespace="b")(scoped)
    assert not Match(resources=("secrets",))(everywhere)


def test_progress_may_be_left_out():
    assert Match()(progress(None, "2"))
    assert not Match(progress=False)(progress(None, "2"))
