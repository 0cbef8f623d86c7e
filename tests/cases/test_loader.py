"""Case files are read as cases/README.md says, and one that cannot be played is refused with its name."""

from __future__ import annotations

import pytest

from tests.cases import loader
from tests.cases.loader import Action, CaseError, Either, Lane, Open, Repeat, Request, Serve

LIST = {"to": "list", "list": {"rv": "1", "items": []}}


def parse(steps, **rest):
    return loader.parse({"id": "a", "steps": steps, "expect": {"changes": {}}} | rest)


def test_lanes_have_their_defaults():
    [segment] = parse([LIST, LIST | {"by": "p2", "ns": "team"}], resource="v1/secrets").acts
    assert list(segment) == [Lane("p1", "v1/secrets", ""), Lane("p2", "v1/secrets", "team")]


def test_barriers_cut_the_script():
    acts = parse([{"do": "settle"}, LIST, LIST, {"to": "discovery", "serves": ["v1/configmaps"]}, LIST]).acts
    assert isinstance(acts[0], Action)
    assert acts[2] == Serve(("v1/configmaps",))
    assert [len(next(iter(act.values()))) for act in acts if isinstance(act, dict)] == [2, 1]


def test_blocks_nest():
    watch = {"to": "watch", "stream": []}
    step = {
        "repeat": {"at_least": 0, "at_most": 2},
        "steps": [{"either": [[LIST], [watch, {"to": "open", "stream": []}]]}],
    }
    [segment] = parse([step]).acts
    [repeat] = next(iter(segment.values()))
    assert isinstance(repeat, Repeat)
    [either] = repeat.steps
    assert isinstance(either, Either)
    assert [type(node) for branch in either.branches for node in branch] == [Request, Request, Open]


def test_a_block_over_two_lanes_is_a_part_in_each():
    other = {"to": "list", "resource": "v1/pods", "want": {}, "list": {"rv": "5", "items": []}}
    block = {"either": [[LIST], [{"repeat": {"at_least": 1, "at_most": 2}, "steps": [other]}]]}
    [segment] = parse([block], resources=["v1/configmaps", "v1/pods"]).acts
    maps, pods = segment[Lane("p1", "v1/configmaps", "")], segment[Lane("p1", "v1/pods", "")]
    assert [[len(branch) for branch in either.branches] for either in (*maps, *pods)] == [[1, 0], [0, 1]]
    assert maps[0].number == pods[0].number
    assert [lane.resource for lane in maps[0].leads] == ["v1/configmaps", "v1/pods"]


def test_settings_have_their_defaults():
    assert parse([LIST], settings={"partitions": 1}).settings == loader.DEFAULTS | {"partitions": 1}


def test_crash_points_are_played_one_by_one():
    crash = {"do": "crash-processor", "at": ["after_begin", "after_commit"]}
    assert parse([crash, LIST, crash]).crash_points == ("after_begin", "after_commit")


@pytest.mark.parametrize(
    ("steps", "rest", "why"),
    [
        ([{"do": "dance"}], {}, "unknown action"),
        ([{"to": "put"}], {}, "unknown step"),
        ([LIST], {"settings": {"colour": "red"}}, "colour"),
        ([LIST], {"needs": ["luck"]}, "luck"),
        ([LIST | {"resource": "v1/pods"}], {}, "no resource of the case"),
    ],
)
def test_what_cannot_be_played_is_refused(steps, rest, why):
    with pytest.raises(CaseError, match=why):
        parse(steps, **rest)


@pytest.mark.parametrize("text", ["steps: [", "[]", "id: a\nexpect: {}\n", "id: a\nexpect: {}\nsteps: [3]\n"])
def test_a_bad_file_is_named(tmp_path, text):
    path = tmp_path / "broken.yaml"
    path.write_text(text)
    with pytest.raises(CaseError, match=r"broken\.yaml"):
        loader.load(path)


def test_the_folder_can_be_named(tmp_path, monkeypatch):
    monkeypatch.setenv(loader.FOLDER_VARIABLE, str(tmp_path))
    assert loader.folder() == tmp_path
    assert loader.files(tmp_path) == []


def test_blocks_of_an_expectation_are_merged():
    expect = {"gaps": [], "changes": {"a": 1}, "any_of": [{"changes": {"b": 2}}, {"gaps": [3]}]}
    assert loader.blocks(expect) == [
        {"gaps": [], "changes": {"a": 1, "b": 2}},
        {"gaps": [3], "changes": {"a": 1}},
    ]
