"""What differs between versions of an object, and who set each field: as the API server's managedFields say it."""

from __future__ import annotations

import orjson
from hypothesis import given
from hypothesis import strategies as st

from kubecdc.blaming import Field, blame, diff, leaves
from kubecdc.records import Cause, Gap, Manager, ObjectOmitted, Op
from tests.kubecdc.making import change

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def text(value):
    return orjson.dumps(value).decode()


def pod(image, managed=(), **more):
    spec = {"containers": [{"name": "a", "image": image}], "args": ["x"], **more}
    return text({"metadata": {"name": "p", "managedFields": list(managed)}, "spec": spec})


def manager(name):
    return Manager(name, "Update", "", "t")


def test_differences_are_leaves_with_both_values():
    assert diff(pod("one", gone=1), pod("two", new={})) == (
        Field("/spec/containers/0/image", '"one"', '"two"'),
        Field("/spec/gone", "1", None),
        Field("/spec/new", None, "{}"),
    )
    assert diff(None, text({"a/b": {"~": 1}})) == (Field("/a~1b/~0", None, "1"),)


@given(JSON, JSON)
def test_nothing_differs_from_itself_and_swapped_versions_swap_values(one, other):
    before, after = text({"x": one}), text({"x": other})
    assert diff(before, before) == ()
    assert {(f.path, f.before, f.after) for f in diff(before, after)} == {
        (f.path, f.after, f.before) for f in diff(after, before)
    }
    assert bool(diff(before, after)) == (leaves(before) != leaves(after))


def test_each_field_is_blamed_on_its_owner_and_on_the_version_that_brought_its_value():
    fields = {"f:spec": {"f:containers": {'k:{"name":"a"}': {".": {}, "f:image": {}}}}}
    others = {"f:spec": {"f:args": {'v:"x"': {}}, "f:containers": {'k:{"name":"a"}': {"f:name": {}}}}}
    managed = [{"manager": "kubectl", "fieldsV1": fields}, {"manager": "helm", "fieldsV1": others}]
    versions = [
        change(rv="10", object=pod("one", managed), changed_by=(manager("helm"),)),
        change(Op.UPDATED, rv="12", seq=2, object=pod("two", managed), changed_by=(manager("kubectl"),)),
        change(Op.UPDATED, rv="13", seq=3, object=pod("two", managed, more=1), changed_by=(manager("helm"),)),
    ]
    found = {b.path: (b.value, b.managers, b.since_rv, b.exact) for b in blame(versions)}
    assert found["/spec/containers/0/image"] == ('"two"', ("kubectl",), "12", True)
    assert found["/spec/args/0"] == ('"x"', ("helm",), "10", True)
    assert found["/spec/containers/0/name"] == ('"a"', ("helm",), "10", True)
    assert found["/spec/more"] == ("1", (), "13", True)
    assert not any(path.startswith("/metadata/managedFields") for path in found)


def test_what_may_be_older_is_not_claimed_as_exact():
    snapshot = change(Op.SNAPSHOT, rv="10", object=pod("one"))
    missed = change(Op.UPDATED, rv="20", seq=2, object=pod("two"), gap=Gap(Cause.RELIST_WINDOW))
    assert {b.exact for b in blame([snapshot])} == {False}
    found = {b.path: (b.since_rv, b.exact) for b in blame([change(object=pod("one")), missed])}
    assert found["/spec/containers/0/image"] == ("20", False)
    assert found["/spec/args/0"] == ("10", True)
    unseen = change(Op.UPDATED, rv="11", seq=2, object=None, object_omitted=ObjectOmitted("too-large", 1))
    later = change(Op.UPDATED, rv="12", seq=3, object=pod("two"))
    found = {b.path: (b.since_rv, b.exact) for b in blame([change(object=pod("one")), unseen, later])}
    assert found["/spec/containers/0/image"] == ("12", False)


def test_a_field_that_several_own_is_blamed_on_the_one_that_wrote():
    both = [{"manager": name, "fieldsV1": {"f:spec": {"f:args": {}}}} for name in ("one", "two")]
    versions = [change(object=pod("i", both), changed_by=(manager("two"),))]
    assert {b.path: b.managers for b in blame(versions)}["/spec/args/0"] == ("two",)


@given(JSON, JSON)
def test_whatever_managed_fields_hold_nothing_breaks(managed, spec):
    blame([change(object=text({"metadata": {"managedFields": managed}, "spec": spec}))])
    blame([change(object=text({"metadata": managed}))])
    sets = [{"manager": "m", "fieldsV1": {"f:spec": {f"{kind}:{text(managed)}": {} for kind in "kvif"}}}]
    blame([change(object=text({"metadata": {"managedFields": sets}, "spec": [spec]}))])
