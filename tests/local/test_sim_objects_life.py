"""One object from its creation to its end: what no request may do to it, whatever the requests are."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from local.sim_kinds import Json
from local.sim_objects import DeleteOptions, Stamp, deleted_by_update, marked, rfc3339, updated
from local.sim_status import Refused
from tests.local.sim_written import DEPLOYMENTS, MAPS, ME, NOW, PODS, STATUS, WIDGETS, make, stored


class Life(RuleBasedStateMachine):
    """One object from its creation to its end: what no request may do to it, whatever the requests are."""

    kind = MAPS

    def __init__(self) -> None:
        super().__init__()
        self.version, self.now = 5, NOW
        self.obj: Json | None = make(self.kind, {"finalizers": ["a.io/f"]}, spec={"nodeName": "n"})
        self.before = copy.deepcopy(self.obj)

    def keep(self, new: Json, *, gone: bool) -> None:
        old = self.obj
        assert old is not None
        assert old == self.before  # arguments are never altered: older versions are still being read
        if new is not old:
            self.version += 1
            new = stored(new, str(self.version))
            self.check_step(old, new)
        self.obj = None if gone else new
        self.before = copy.deepcopy(new)

    def check_step(self, old: Json, new: Json) -> None:
        was, now = old["metadata"], new["metadata"]
        for fixed in ("name", "namespace", "uid", "creationTimestamp"):
            assert now[fixed] == was[fixed]
        assert now.get("generation", 0) >= was.get("generation", 0)
        assert (self.kind.generation == "never") is ("generation" not in now)
        if "deletionTimestamp" in was:
            assert now["deletionTimestamp"] <= was["deletionTimestamp"]
            assert now["deletionGracePeriodSeconds"] <= was["deletionGracePeriodSeconds"]
            assert set(now.get("finalizers", ())) <= set(was.get("finalizers", ()))

    live = precondition(lambda self: self.obj is not None)

    @live
    @rule(
        data=st.data(),
        finalizers=st.none() | st.lists(st.sampled_from(["a.io/f", "b.io/f"]), unique=True),
        spec=st.none() | st.fixed_dictionaries({"nodeName": st.just("n"), "n": st.integers(0, 1)}),
        extra=st.dictionaries(
            st.sampled_from(["uid", "deletionTimestamp", "generation", "creationTimestamp", "labels", "selfLink"]),
            st.none() | st.sampled_from(["the-uid", "other", rfc3339(NOW)]) | st.just({}),
        ),
    )
    def update(self, data: st.DataObject, finalizers: list[str] | None, spec: Json | None, extra: Json) -> None:
        assert self.obj is not None
        sent = copy.deepcopy(self.obj) | ({"spec": spec} if spec else {})
        sent["metadata"] |= extra | ({} if finalizers is None else {"finalizers": finalizers})
        sent_before = copy.deepcopy(sent)
        writer = data.draw(st.sampled_from([ME, STATUS]))
        try:
            new = updated(self.kind, self.obj, sent, writer, Stamp(rfc3339(self.now)))
        except Refused as refused:
            new, expected = self.obj, refused.code
        else:
            expected = 0
            ends = "deletionTimestamp" in new["metadata"] and not new["metadata"].get("finalizers")
            grace = new["metadata"].get("deletionGracePeriodSeconds", 0)
            assert deleted_by_update(new) is (ends and grace == 0)
        assert expected in (0, 422)
        assert sent == sent_before
        self.keep(new, gone=new is not self.obj and deleted_by_update(new))

    @live
    @rule(grace=st.none() | st.integers(-1, 40))
    def delete(self, grace: int | None) -> None:
        assert self.obj is not None
        new, gone = marked(self.kind, self.obj, DeleteOptions(grace), self.now)
        meta = new["metadata"]
        if gone:
            assert not meta.get("finalizers")
            assert meta.get("deletionGracePeriodSeconds", 0) == 0
        else:
            assert "deletionTimestamp" in meta
            assert meta.get("finalizers") or meta["deletionGracePeriodSeconds"] > 0
        self.keep(new, gone=gone)

    @rule(seconds=st.integers(1, 20))
    def wait(self, seconds: int) -> None:
        self.now += seconds

    @invariant()
    def mark_is_whole(self) -> None:
        if self.obj is not None:
            meta = self.obj["metadata"]
            assert ("deletionTimestamp" in meta) is ("deletionGracePeriodSeconds" in meta)


class PodLife(Life):
    kind = PODS


class CustomLife(Life):
    kind = WIDGETS


class DeploymentLife(Life):
    kind = DEPLOYMENTS


def machine(life: type[Life]) -> Any:
    case = life.TestCase
    case.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
    return case


TestLife, TestPodLife = machine(Life), machine(PodLife)
TestCustomLife, TestDeploymentLife = machine(CustomLife), machine(DeploymentLife)
