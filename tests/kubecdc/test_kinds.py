"""Text becomes a value, or one sentence says what is wanted."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubecdc import kinds
from kubecdc.kinds import Kind


@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [
        (kinds.text, "a b", "a b"),
        (kinds.boolean, "Yes", True),
        (kinds.boolean, "off", False),
        (kinds.integer(), "-7", -7),
        (kinds.integer(1, 3), "3", 3),
        (kinds.seconds, "1.5", 1.5),
        (kinds.seconds, "500ms", 0.5),
        (kinds.seconds, "7d", 604_800.0),
        (kinds.path, "a/b", Path("a/b")),
        (kinds.url, "http://host:8081/", "http://host:8081"),
        (kinds.bootstrap, "a:1, b:65535", "a:1,b:65535"),
        (kinds.bootstrap, "[::1]:9092", "[::1]:9092"),
        (kinds.prefix, "team.kubecdc-1", "team.kubecdc-1"),
        (kinds.kafka_property, "a=b=c", ("a", "b=c")),
        (kinds.choice("a", "b"), "b", "b"),
    ],
)
def test_what_is_understood(kind: Kind, given: str, value: object):
    assert kind.parse(given) == value


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (kinds.text, " "),
        (kinds.boolean, "maybe"),
        (kinds.integer(), "1.0"),
        (kinds.integer(), "\u0661"),
        (kinds.integer(), "9" * 30),
        (kinds.integer(1), "0"),
        (kinds.integer(high=5), "6"),
        (kinds.seconds, "-1"),
        (kinds.seconds, "5 parsecs"),
        (kinds.seconds, "inf"),
        (kinds.path, ""),
        (kinds.file, "/nowhere/at/all"),
        (kinds.folder, "/nowhere/at/all"),
        (kinds.path, "~nobody-of-this-name/x"),
        (kinds.file, "~nobody-of-this-name/x"),
        (kinds.path, "/a" * 2049),
        (kinds.file, "a" * 256),
        (kinds.folder, "/a" * 5000),
        (kinds.file, "a\0b"),
        (kinds.url, "host:8081"),
        (kinds.url, "http://host:notaport"),
        (kinds.url, "ftp://host"),
        (kinds.bootstrap, "host"),
        (kinds.bootstrap, "host:0"),
        (kinds.bootstrap, "a:1,,b:2"),
        (kinds.prefix, "a/b"),
        (kinds.prefix, ".."),
        (kinds.kafka_property, "a"),
        (kinds.kafka_property, "=b"),
        (kinds.kafka_property, "bootstrap.servers=elsewhere:9092"),
        (kinds.choice("a", "b"), "A"),
    ],
)
def test_what_is_refused_with_a_sentence(kind: Kind, given: str):
    with pytest.raises(ValueError, match=r"^must "):
        kind.parse(given)


def test_paths_that_must_exist_are_looked_up(tmp_path: Path):
    file = tmp_path / "f"
    file.touch()
    assert kinds.file.parse(str(file)) == file
    assert kinds.folder.parse(str(tmp_path)) == tmp_path
    with pytest.raises(ValueError, match="folder that exists"):
        kinds.folder.parse(str(file))
