"""Exactly what is asked for is given, and what concerns it is not hidden."""

from __future__ import annotations

import pytest

from kubecdc.errors import Misconfigured
from kubecdc.folding import Resource
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
    assert not Match(resources=("deployments.",))(DEPLOYMENT)
    assert not Match(resources=("*.",))(DEPLOYMENT)


def test_a_bare_name_is_of_any_group():
    assert Match(resources=("deployments",))(DEPLOYMENT)
    assert Match(resources=("*",))(DEPLOYMENT)
    assert Match(resources=("pods.",))(POD)


def test_kinds_that_are_a_text_are_refused():
    with pytest.raises(Misconfigured, match=r"must be a tuple of kinds, such as \('pods',\)"):
        Match(resources="pods")  # type: ignore[arg-type]


def test_what_is_asked_for_and_absent_is_told_with_what_there_is():
    known = [Resource("c", "", "pods"), Resource("c", "apps", "deployments"), Resource("d", "", "secrets")]
    assert Match().absent(known) == ()
    assert Match("c", ("pods", "deployments", "*.apps")).absent(known) == ()
    assert Match("e", ("pods",)).absent(known) == ("no cluster e in what was read, only c, d",)
    assert Match("c", ("pods", "secrets", "v1/pods")).absent(known) == (
        "no kind secrets in what was read, only deployments.apps, pods",
        "no kind v1/pods in what was read, only deployments.apps, pods",
    )
    assert Match("e", ("pods",)).absent([]) == ()


def test_a_stream_s_gap_concerns_every_object_of_it():
    everywhere, scoped = gap(Cause.RELIST_WINDOW, "1", "2"), gap(Cause.RELIST_WINDOW, "1", "2", scope="a")
    assert Match(namespace="a", name="p", uid="u1")(everywhere)
    assert Match(namespace="a")(scoped)
    assert not Match(namespace="b")(scoped)
    assert not Match(resources=("secrets",))(everywhere)


def test_progress_may_be_left_out():
    assert Match()(progress(None, "2"))
    assert not Match(progress=False)(progress(None, "2"))
