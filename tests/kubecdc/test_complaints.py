"""Guarantee: a broker that is away is told in the log, and does not fill it."""

from __future__ import annotations

import logging

from kubecdc.complaints import LOG, QUIET_S, Seldom


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
