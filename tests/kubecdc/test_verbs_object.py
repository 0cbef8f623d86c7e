"""One object's versions on the command line: all that the log has, what differs, who is to blame."""

from __future__ import annotations

import json

import pytest

from kubecdc.cli import main
from kubecdc.records import Manager, Op
from local.broker import Broker
from tests.kubecdc.logs import Log
from tests.kubecdc.making import change, progress


def pod(image: str) -> str:
    owned = {"f:spec": {"f:image": {}}}
    metadata = {"name": "p", "managedFields": [{"manager": "kubectl", "fieldsV1": owned}]}
    return json.dumps({"metadata": metadata, "spec": {"image": image, "node": "a"}})


LIFE = [
    change(object=pod("one")),
    change(Op.UPDATED, rv="11", seq=2, prev_rv="10", object=pod("two"), changed_by=(Manager("kubectl", "U", "", "t"),)),
    change(Op.UPDATED, rv="12", seq=3, prev_rv="11", object=pod("two")),
]


@pytest.fixture
def log(kafka_broker: Broker) -> Log:
    log = Log(kafka_broker.bootstrap)
    log.write(*LIFE, change(uid="u2"), progress(None, "20", count=0))
    return log


def run(log: Log, *words: str) -> int:
    return main([*words, "--bootstrap", log.bootstrap, "--prefix", log.prefix, "-o", "json"])


def test_history_is_every_version_of_that_object(log: Log, capsys: pytest.CaptureFixture[str]):
    assert run(log, "history", "--uid", "u1") == 0
    assert [(c["uid"], c["seq"], c["rv"]) for c in json.loads(capsys.readouterr().out)] == [
        ("u1", 1, "10"),
        ("u1", 2, "11"),
        ("u1", 3, "12"),
    ]


def test_diff_is_between_the_last_two_versions_or_those_asked_for(log: Log, capsys: pytest.CaptureFixture[str]):
    assert run(log, "diff", "--uid", "u1") == 0
    assert json.loads(capsys.readouterr().out) == []
    assert run(log, "diff", "--uid", "u1", "--from-rv", "10", "--to-rv", "11") == 0
    changed = [{"path": "/spec/image", "before": '"one"', "after": '"two"'}]
    assert json.loads(capsys.readouterr().out) == changed
    assert run(log, "diff", "--uid", "u1", "--to-rv", "11") == 0
    assert json.loads(capsys.readouterr().out) == changed


def test_blame_names_manager_and_version_of_each_field(log: Log, capsys: pytest.CaptureFixture[str]):
    assert run(log, "blame", "--uid", "u1") == 0
    rows = {row["path"]: row for row in json.loads(capsys.readouterr().out)}
    assert (rows["/spec/image"]["managers"], rows["/spec/image"]["since_rv"]) == (["kubectl"], "11")
    assert (rows["/spec/node"]["managers"], rows["/spec/node"]["since_rv"]) == ([], "10")
    assert run(log, "blame", "--uid", "u1", "--at-rv", "10") == 0
    assert {row["since_rv"] for row in json.loads(capsys.readouterr().out)} == {"10"}


def test_what_the_log_does_not_have_is_told(log: Log, capsys: pytest.CaptureFixture[str]):
    assert run(log, "history", "--uid", "nobody") == 2
    assert "the log has no object with UID nobody" in capsys.readouterr().err
    assert run(log, "diff", "--uid", "u1", "--to-rv", "99") == 2
    assert "no version 99 of this object; its last are 10, 11, 12" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["history", "diff", "blame"])
def test_a_broken_log_ends_with_status_3_after_the_report(
    verb: str, kafka_broker: Broker, capsys: pytest.CaptureFixture[str]
):
    log = Log(kafka_broker.bootstrap)
    log.write(LIFE[0], LIFE[2])
    assert run(log, verb, "--uid", "u1") == 3
    assert capsys.readouterr().out == ""
    assert run(log, verb, "--uid", "u1", "--on-break", "report") == 3
    output = capsys.readouterr()
    assert json.loads(output.out)
    assert "has seq 3 after 1" in output.err
    assert "the log is broken in 1 places" in output.err
