"""Guarantees: lines about a session name its resource, scope, session and version, and no line holds an object."""

from __future__ import annotations

import json
import logging

import pytest

from local.sim_server import SimServer
from producer import logs
from tests.producer.memory_sink import MemorySink
from tests.producer.test_service import Running, until, write

SENTINEL = "content-of-an-object-5c1d"


def record(**extra: object) -> logging.LogRecord:
    made = logging.getLogger("producer.x").makeRecord("producer.x", logging.INFO, "f", 1, "a %s", ("b",), None)
    made.__dict__.update(extra)
    return made


def test_fields_stand_apart_in_json_and_the_session_in_text():
    fields = {"resource": "pods", "scope": "", "session": "s.1", "version": "7"}
    line = json.loads(logs.JsonLines().format(record(**fields)))
    assert line.pop("time")
    assert line == {"level": "info", "logger": "producer.x", "message": "a b", **fields}
    assert logs.TextLines().format(record(**fields)).endswith("a b [s.1]")
    assert "session" not in json.loads(logs.JsonLines().format(record()))
    assert logs.TextLines().format(record()).endswith("a b")


def test_the_format_is_chosen_once_for_all_loggers(capsys: pytest.CaptureFixture[str]):
    root = logging.getLogger()
    before = (root.handlers[:], root.level)
    try:
        logs.set_up("json", "warning")
        logging.getLogger("producer.y").warning("w")
        logging.getLogger("producer.y").info("i")
        logging.getLogger("urllib3").warning("a URL")
        (line,) = capsys.readouterr().err.splitlines()
        assert json.loads(line)["message"] == "w"
    finally:
        root.handlers[:], level = before[0], before[1]
        root.setLevel(level)
        for name in ("urllib3", "kubernetes"):
            logging.getLogger(name).setLevel(logging.NOTSET)


def test_what_a_session_says_can_be_filtered_and_holds_no_content(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    with SimServer() as server:
        write(server, "a", SENTINEL)
        running = Running(server, MemorySink())
        until(running.producer.settled)
        server.faults.set("garbage", verb="watch", count=1, data='{"type":"' + SENTINEL + '"}\n')
        rv = write(server, "b", SENTINEL)
        until(lambda: running.producer.metrics.value("relists_total") == 1)
        until(running.producer.settled)
        running.end()
    ours = [r for r in caplog.records if r.name.startswith("producer.driver")]
    assert ours
    assert {(r.resource, r.scope) for r in ours} == {("configmaps", "")}
    assert len({r.session for r in ours}) == 1
    assert rv in {getattr(r, "version", None) for r in ours}
    assert not [r for r in caplog.records if SENTINEL in logs.JsonLines().format(r)]
