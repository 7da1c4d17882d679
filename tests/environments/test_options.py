"""Checks what is read from NAME=VALUE and module:Class, and what is refused."""

import json

import pytest

from mrq import MRQError
from mrq.environments.options import EnvironmentOptions, Wrapper, texts


def test_values_are_python_literals_or_text():
    options = EnvironmentOptions(
        env_kwargs=("slippery=False", "map=8x8", "size=(1, 2.5)", "text='3'", "nothing=None", "sum=a=b", "empty="),
        eval_env_kwargs=("map=4x4", "seed=3"),
    )
    own = {"slippery": False, "map": "8x8", "size": (1, 2.5), "text": "3", "nothing": None, "sum": "a=b", "empty": ""}
    assert options.kwargs() == own
    assert options.kwargs(in_evaluations=True) == own | {"map": "4x4", "seed": 3}
    assert isinstance(options.kwargs()["size"], tuple)


def test_values_are_also_json():
    kwargs = ("slippery=false", "open=true", "nothing=null", 'kind={"a": [true, 1]}', "number=NaN", "name=trueish")
    options = EnvironmentOptions(env_kwargs=kwargs)
    own = {"slippery": False, "open": True, "nothing": None, "kind": {"a": [True, 1]}, "number": "NaN"}
    assert options.kwargs() == own | {"name": "trueish"}


def test_values_are_written_as_they_are_read():
    kwargs = {"a": False, "b": "8x8", "c": (1, [2.5, None]), "d": {"e": "1"}, "f": -1e-9, "g": "x=1, y", "h": "False"}
    written = EnvironmentOptions(env_kwargs=texts(kwargs))
    assert written.kwargs() == kwargs
    assert [type(value) for value in written.kwargs().values()] == [type(value) for value in kwargs.values()]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), len, [object()], range(3)])
def test_what_no_literal_stands_for_is_not_written(value):
    with pytest.raises(ValueError, match=r"literal|malformed|invalid"):
        texts({"a": value})


def test_the_content_of_a_file_is_kept_instead_of_its_name(tmp_path):
    path = tmp_path / "level.json"
    path.write_text(json.dumps({"walls": [1, 2], "open": True}))
    options = EnvironmentOptions(env_kwargs=(f"level={path}", "size=3"), eval_env_kwargs=(f"level={path}",))
    whole = options.with_files_read()
    path.write_text("{}")
    level = {"walls": [1, 2], "open": True}
    assert (whole.kwargs(), whole.kwargs(in_evaluations=True)) == ({"level": level, "size": 3},) * 2


@pytest.mark.parametrize("content", [None, "{", "[" * 100_000, "NaN"])
def test_a_file_that_holds_no_json_gets_one_sentence(tmp_path, content):
    path = tmp_path / "level.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(MRQError, match=r"level\.json cannot be read as JSON"):
        EnvironmentOptions(env_kwargs=(f"level={path}",)).with_files_read()


def test_wrappers_have_their_arguments_as_json_or_as_a_python_dictionary():
    options = EnvironmentOptions(wrapper=("a.b:C", 'a:C:{"x": true, "y": "p:q"}', "a:C:{'x': True, 'y': 'p:q'}"))
    same = Wrapper("a:C", {"x": True, "y": "p:q"})
    assert options.wrappers == [Wrapper("a.b:C", {}), same, same]
    assert [wrapper.text for wrapper in options.wrappers] == ["a.b:C", *["a:C:{'x': True, 'y': 'p:q'}"] * 2]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"env_kwargs": ("slippery",)}, "--env-kwargs has 'slippery'; give NAME=VALUE"),
        ({"env_kwargs": ("a b=1",)}, "--env-kwargs has 'a b=1'; give NAME=VALUE"),
        ({"env_kwargs": ("a=1", "a=2")}, "--env-kwargs gives a twice"),
        ({"eval_env_kwargs": ("a",)}, "--eval-env-kwargs has 'a'"),
        ({"env_kwargs": ('desc=["SF",',)}, "--env-kwargs has .*, whose value is neither a Python literal nor JSON"),
        ({"eval_env_kwargs": ("a={b: 1}",)}, "--eval-env-kwargs has 'a={b: 1}', whose value is neither"),
        ({"env_kwargs": ("a=(1",)}, "close its quotes and brackets"),
        ({"env_kwargs": ("a='b",)}, "or give text in quotes of its own: a='\"…\"'"),
        ({"wrapper": ("a:C:{b: 1}",)}, "--wrapper has the arguments '{b: 1}'; give a dictionary"),
        ({"env_kwargs": "a=1"}, "--env-kwargs is 'a=1'; it must be a list"),
        ({"env_kwargs": (1,)}, "--env-kwargs is 1; it must be text"),
        ({"wrapper": ("TimeLimit",)}, "--wrapper is 'TimeLimit'; it must be module:Class"),
        ({"wrapper": (":TimeLimit",)}, "it must be module:Class"),
        ({"wrapper": ("a:C:3",)}, "--wrapper has the arguments '3'; give a dictionary"),
        ({"wrapper": ("a:C:{1: 2}",)}, "give a dictionary"),
        ({"max_episode_steps": 0}, "--max-episode-steps is 0; it must be between 1"),
        ({"contacts": "none"}, "--contacts is 'none'; it must be paper, installed"),
    ],
)
def test_what_cannot_be_meant_gets_one_sentence(options, words):
    with pytest.raises(MRQError, match=words):
        EnvironmentOptions(**options)


def test_more_wrappers_than_can_be_stacked_are_refused():
    clip = "gymnasium.wrappers:ClipAction"
    assert len(EnvironmentOptions(wrapper=(clip,) * 100).wrappers) == 100
    with pytest.raises(MRQError, match="there are 3,000 wrappers; give at most 100"):
        EnvironmentOptions(wrapper=(clip,) * 3_000)
