"""A version that is too large for the topic is in the log without its object, never missing, and never silent."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kubecdc.codec import Codec
from kubecdc.records import EventType, ObjectOmitted
from kubecdc.topics import MAX_MESSAGE_BYTES
from processors.fitting import LIMIT_BYTES, WHOLE, fit
from tests.processors.raw import Feed

CODEC = Codec()


def change(body="{}", changed=()):
    feed = Feed().relist("10", {"u1": "5"})
    feed.send(EventType.MODIFIED, "u1", "11", object=body)
    return replace(feed.of("u1")[-1], changed=changed)


def test_what_fits_goes_out_as_it_is():
    value, omitted = fit(change(), CODEC.encode)
    assert (CODEC.decode(value), omitted) == (change(), False)


def test_an_object_that_is_too_large_is_left_out_and_its_size_told():
    large = change("x" * (MAX_MESSAGE_BYTES - 100), ("/a",))
    value, omitted = fit(large, CODEC.encode)
    told = CODEC.decode(value)
    assert omitted
    assert len(value) < 1000
    assert told == replace(large, object=None, object_omitted=ObjectOmitted("too-large", MAX_MESSAGE_BYTES - 100))


def test_a_list_of_changes_that_is_too_large_becomes_the_whole_object():
    many = change("x", tuple(f"/data/{n:0100d}" for n in range(60_000)))
    value, omitted = fit(many, CODEC.encode)
    assert omitted
    assert CODEC.decode(value).changed == WHOLE


def test_why_a_producer_left_the_object_out_stays():
    sealed = replace(change(None, ("/a" * 500,)), object_omitted=ObjectOmitted("redaction-failed", 7))
    value, omitted = fit(sealed, CODEC.encode, 500)
    assert omitted
    assert CODEC.decode(value).object_omitted == ObjectOmitted("redaction-failed", 7)


@given(st.text(max_size=3000), st.lists(st.text(max_size=50), max_size=60), st.integers(600, 3000))
def test_identity_order_and_content_digest_always_arrive(body, changed, limit):
    given_ = change(body, tuple(changed))
    value, omitted = fit(given_, CODEC.encode, limit)
    told = CODEC.decode(value)
    assert len(value) <= limit
    assert omitted == (told != given_)
    kept = replace(told, object=body, object_omitted=None, changed=tuple(changed))
    assert kept == given_


def test_the_limit_leaves_room_for_what_kafka_adds():
    assert 0 < MAX_MESSAGE_BYTES - LIMIT_BYTES < 10_000
