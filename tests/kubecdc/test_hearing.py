"""An ear tells a silence in the log and shows it in a gauge under its reason, until it is over."""

from __future__ import annotations

import logging
import time

import pytest
from prometheus_client import CollectorRegistry, Gauge

from kubecdc.hearing import Ear, on
from kubecdc.unheard import Asked, Heard, Refused

LOG = logging.getLogger("test.hearing")


class Setting:
    """An ear, its gauge, and a time that has passed before its first refusal."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        gauge = Gauge("unheard_seconds", "Silence", ("resource", "reason"), registry=self.registry)
        self.ear = Ear("pods", LOG, on(gauge, "pods"), fields={"resource": "pods"})

    def refuse(self, reason: str, ago_s: float = 0.0, detail: str = "") -> None:
        now = time.monotonic()
        self.ear.take(Refused(now, reason, detail, now - ago_s))

    def shown(self) -> dict[str, float]:
        families = list(self.registry.collect())
        return {sample.labels["reason"]: sample.value for family in families for sample in family.samples}


def test_a_silence_is_shown_under_its_last_reason_and_grows_until_it_is_over() -> None:
    setting = Setting()
    assert setting.shown() == {}
    setting.refuse("connection", 5)
    assert list(setting.shown()) == ["connection"]
    setting.refuse("throttled")
    first = setting.shown()
    assert list(first) == ["throttled"]
    assert first["throttled"] >= 5
    while setting.shown()["throttled"] == first["throttled"]:
        time.sleep(0.001)
    setting.ear.take(Heard(time.monotonic()))
    assert setting.shown() == {}
    assert setting.ear.seconds() == 0


def test_the_log_has_who_since_when_how_often_and_why_and_the_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    setting = Setting()
    setting.refuse("throttled", 72, "429: wait")
    since = time.strftime("%Y-%m-%dT%H:%M", time.gmtime(time.time() - 72))
    warning = caplog.records[0]
    assert warning.getMessage().startswith(f"pods: nothing heard for 72 s, since {since}")
    assert warning.getMessage().endswith("Z, 1 failed request: throttled (429: wait)")
    assert (warning.levelno, warning.resource) == (logging.WARNING, "pods")  # type: ignore[attr-defined]
    setting.ear.take(Heard(time.monotonic()))
    over = caplog.records[1]
    assert (over.levelno, over.getMessage()) == (
        logging.INFO,
        "pods: heard again after 72 s of silence (throttled)",
    )
    assert len(caplog.records) == 2


def test_a_sentence_is_had_of_silences_that_are_long_enough() -> None:
    setting = Setting()
    assert setting.ear.sentence() == ""
    setting.refuse("tls", 30)
    assert "pods: nothing heard for 30 s" in setting.ear.sentence()
    assert "1 failed request: tls" in setting.ear.sentence(29)
    assert setting.ear.sentence(60) == ""


def test_a_question_without_an_answer_is_told_by_a_look(caplog: pytest.LogCaptureFixture) -> None:
    setting = Setting()
    setting.ear.take(Asked(time.monotonic() - 11))
    assert setting.ear.silent
    assert (setting.ear.due() or 0) < time.monotonic()
    setting.ear.look("no-acknowledgement", "3 records wait")
    assert "no-acknowledgement (3 records wait)" in caplog.records[0].getMessage()
    assert "failed" not in caplog.records[0].getMessage()
    assert list(setting.shown()) == ["no-acknowledgement"]
