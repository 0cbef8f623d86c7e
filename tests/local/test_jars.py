"""Jars are fetched once; a fetch that was cut, or cannot be made, never looks like a good one."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from local import jars
from local.errors import JarsUnavailable

ROOT = Path(__file__).parents[2]


def test_class_path_names_jars_that_exist() -> None:
    paths = [Path(part) for part in jars.class_path().split(os.pathsep)]
    assert f"kafka_2.13-{jars.KAFKA_VERSION}.jar" in [path.name for path in paths]
    assert all(zipfile.is_zipfile(path) for path in paths)


def test_processes_that_ask_at_once_get_the_same_answer() -> None:
    code = "from local import jars; print(jars.class_path())"
    askers = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=ROOT) for _ in range(3)]
    answers = {asker.communicate()[0] for asker in askers}
    assert answers == {jars.class_path().encode() + b"\n"}


def test_fetch_that_cannot_be_made_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    said: list[str] = []
    with pytest.raises(JarsUnavailable, match="Check the network and try again"):
        jars.class_path(said.append)
    assert len(said) == 1
    assert not list(tmp_path.rglob("*.classpath"))


def test_truncated_jar_is_removed_before_a_fetch(tmp_path: Path) -> None:
    whole, cut = tmp_path / "a" / "whole.jar", tmp_path / "a" / "cut.jar"
    whole.parent.mkdir()
    with zipfile.ZipFile(whole, "w") as archive:
        archive.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n" * 50)
    cut.write_bytes(whole.read_bytes()[:-30])
    jars._remove_truncated(tmp_path)
    assert whole.exists()
    assert not cut.exists()


def test_listing_with_a_jar_that_has_gone_is_no_listing(tmp_path: Path) -> None:
    jar, listing = tmp_path / "a.jar", tmp_path / "x.classpath"
    jar.touch()
    listing.write_text(f"{jar}\n")
    assert jars._listed(listing) == [jar]
    jar.unlink()
    assert jars._listed(listing) == []
