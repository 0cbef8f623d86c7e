"""Guarantee: a broker that is away is told in the log, and does not fill it."""

from __future__ import annotations

import logging

from kubecdc.complaints import LOG, QUIET_S, Heard, Seldom, advised


def record(text: str) -> logging.LogRecord:
    return logging.LogRecord("kafka", logging.ERROR, "", 0, "%s", (text,), None)


def test_of_each_kind_one_in_a_while_is_logged() -> None:
    now = [100.0]
    seldom = Seldom(lambda: now[0])
    assert seldom.filter(record("FAIL [rdkafka#producer-1] [thrd:b/1]: connection refused"))
    assert not seldom.filter(record("FAIL [rdkafka#consumer-7] [thrd:b/2]: connection refused"))
    assert seldom.filter(record("MAXPOLL [rdkafka#consumer-7] [thrd:main]: too slow"))
    now[0] += QUIET_S
    later = record("FAIL [rdkafka#producer-1] [thrd:b/1]: connection refused")
    assert seldom.filter(later)
    assert later.getMessage().endswith("connection refused (1 more of the kind before)")
    now[0] += QUIET_S
    again = record("FAIL [rdkafka#producer-1] [thrd:b/1]: 100 % gone")
    assert seldom.filter(again)
    assert again.getMessage().endswith("100 % gone")


def test_the_clients_log_is_filtered() -> None:
    assert [type(each) for each in LOG.filters] == [Seldom]


class Complaint:
    def __init__(self, name: str, text: str) -> None:
        self._name, self._text = name, text

    def name(self) -> str:
        return self._name

    def str(self) -> str:
        return self._text


def test_the_complaint_that_tells_most_is_the_reason() -> None:
    heard = Heard()
    assert heard.reason() is None
    heard(Complaint("_TRANSPORT", "connection refused"))
    assert heard.reason() is None, "what has no advice says no more than the call itself"
    heard(Complaint("_SSL", "certificate verify failed"))
    assert heard.reason() == (
        "certificate verify failed: check security.protocol, ssl.ca.location and the names in the certificate"
    )
    heard(Complaint("_AUTHENTICATION", "Invalid username or password."))
    assert heard.reason() == ("Invalid username or password: check the user and the password in --kafka-property")


def test_advice_is_added_where_there_is_some() -> None:
    told = advised("Topic authorization failed.", "TOPIC_AUTHORIZATION_FAILED")
    assert told == "Topic authorization failed: give the account the rights that README.md names"
    assert advised("it timed out.", "_TIMED_OUT") == "it timed out."
