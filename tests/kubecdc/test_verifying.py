"""What differs between the log and the API server is found, and nothing else."""

from __future__ import annotations

from kubecdc.folding import Resource
from kubecdc.verifying import Kind, Listed, compare
from tests.kubecdc.making import change

PODS = Resource("c", "", "pods")


def listed(uid="u1", rv="10", digest="d"):
    return Listed(uid, "ns", f"pod-{uid}", rv, digest)


def kinds(logged, items, **how):
    return [(d.uid, d.kind, d.log_rv, d.server_rv) for d in compare(PODS, logged, items, **how).differences]


def test_equal_states():
    found = compare(PODS, {"u1": change()}, [listed()])
    assert (found.differences, found.equal, found.unlike_keys) == ((), 1, 0)


def test_each_kind_of_difference():
    logged = {uid: change(uid=uid) for uid in ("u1", "u2", "u3", "u4")}
    items = [listed("u0"), listed("u1", "12"), listed("u2", "9"), listed("u3", digest="other")]
    assert kinds(logged, items) == [
        ("u0", Kind.MISSING, None, "10"),
        ("u1", Kind.OLDER, "10", "12"),
        ("u2", Kind.NEWER, "10", "9"),
        ("u3", Kind.CONTENT, "10", "10"),
        ("u4", Kind.EXTRA, "10", None),
    ]


def test_versions_compare_as_numbers_of_any_length():
    assert kinds({"u1": change(rv="9")}, [listed(rv="10")]) == [("u1", Kind.OLDER, "9", "10")]


def test_dropped_noise_may_be_older_but_not_other():
    assert kinds({"u1": change()}, [listed(rv="12")], noise_dropped=True) == []
    assert kinds({"u1": change()}, [listed(rv="12", digest="x")], noise_dropped=True) != []


def test_digests_under_other_keys_tell_nothing_and_are_counted():
    found = compare(PODS, {"u1": change(digest="a@k1")}, [listed(digest="b@k2")])
    assert (found.differences, found.equal, found.unlike_keys) == ((), 1, 1)
    assert kinds({"u1": change(digest="a@k1")}, [listed(digest="b@k1")]) == [("u1", Kind.CONTENT, "10", "10")]
