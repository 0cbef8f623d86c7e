"""Guarantees: one key for a cluster on a machine, readable by its owner only, and a warning where none can be kept."""

from __future__ import annotations

import logging
import stat
from pathlib import Path

import pytest

from producer.keys import default_folder, kept_key


def test_the_key_is_made_once_and_kept(tmp_path: Path) -> None:
    key = kept_key("c", tmp_path / "state")
    assert key is not None
    assert len(key) == 32
    assert kept_key("c", tmp_path / "state") == key
    assert kept_key("other", tmp_path / "state") != key
    files = list((tmp_path / "state").iterdir())
    assert len(files) == 2
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def test_where_nothing_can_be_kept_there_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    with caplog.at_level(logging.WARNING):
        assert kept_key("c", tmp_path / "file") is None
    assert "--redaction-key-file" in caplog.text


def test_the_folder_is_that_for_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "kubecdc"
