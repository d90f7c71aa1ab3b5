"""Every wrong field of a sweep spec is named with its path, its value and a remedy; nothing is written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from tile_testing.fakes.experiments_fakes import spec_data
from tileflow_experiments import spec
from tileflow_experiments.spec import Budget, parse
from tileflow_experiments.spec_check import check

from tileflow.errors import SpecError

KERNELS: list[dict[str, Any]] = [{"kernel": "a.b:k", "problems": [{"m": 1}, {"m": 2, "dtype": "bfloat16"}]}]


def kernels(**changes: Any) -> dict[str, Any]:
    return {"kernels": [KERNELS[0] | changes]}


HUGE = 10**400
WRONG: list[tuple[dict[str, Any], str, str, str]] = [
    # changes, field path, got, remedy
    ({"nmae": "x"}, "nmae", "'nmae'", "did you mean name?"),
    ({"name": 3}, "name", "3", "quote it"),
    ({"name": "a b"}, "name", "'a b'", "MLflow"),
    ({"kernels": []}, "kernels", "[]", "'- ' line"),
    ({"kernels": {"kernel": "a:b"}}, "kernels", "{'kernel'", "write [a, b]"),
    ({"kernels": ["a:b"]}, "kernels[0]", "'a:b'", "key: value"),
    (kernels(kernel="softmax"), "kernels[0].kernel", "'softmax'", "examples.softmax:softmax"),
    (kernels(kernel="a.b:k()"), "kernels[0].kernel", "'a.b:k()'", "examples.softmax:softmax"),
    (kernels(kernel="__main__:k"), "kernels[0].kernel", "'__main__:k'", "move it out"),
    (kernels(kernel=None), "kernels[0].kernel", "None", "quote it"),
    (kernels(dtype="x"), "kernels[0].dtype", "'dtype'", "known: kernel, problems"),
    (kernels(problems=[]), "kernels[0].problems", "[]", "write [a, b]"),
    (kernels(problems=[{"m": 1}, {}]), "kernels[0].problems[1]", "{}", "key: value"),
    (kernels(problems=[{"m": 1}, {"m": [2]}]), "kernels[0].problems[1].m", "[2]", "nested"),
    (kernels(problems=[{"m": float("inf")}]), "kernels[0].problems[0].m", "inf", "finite"),
    (
        kernels(problems=[{"m": 1}, {"dtype": "bflot16"}]),
        "kernels[0].problems[1].dtype",
        "'bflot16'",
        "did you mean b",
    ),
    (kernels(problems=[{"m": 1}, {"m": 1}]), "kernels[0].problems[1]", "{'m': 1}", "remove the second"),
    # They were one search to all that keeps results, and two to the journal, which nothing could go on with.
    (kernels(problems=[{"m": 1}, {"m": 1.0}]), "kernels[0].problems[1]", "{'m': 1} and {'m': 1.0}", "by itself"),
    (
        kernels(problems=[{"m": 2}, {"m": 1}, {"m": True}]),
        "kernels[0].problems[2]",
        "{'m': 1} and {'m': True}",
        "by itself",
    ),
    (kernels(problems=[{"m": 0.0}, {"m": -0.0}]), "kernels[0].problems[1]", "{'m': 0.0} and {'m': -0.0}", "by itself"),
    ({"kernels": [KERNELS[0], KERNELS[0]]}, "kernels[1]", "{'kernel'", "remove the second"),
    ({"device_classes": ["nvidia-h2000"]}, "device_classes[0]", "'nvidia-h2000'", "did you mean nvidia-h200?"),
    ({"device_classes": ["the slice"]}, "device_classes[0]", "'the slice'", "python -m tileflow_cluster.labels"),
    ({"device_classes": "nvidia-h200"}, "device_classes", "'nvidia-h200'", "write [a, b]"),
    ({"strategy": "random"}, "strategy", "'random'", "key: value"),
    ({"strategy": {"seed": 1}}, "strategy.name", "nothing", "add name:"),
    ({"strategy": {"name": "random", "seed": -1}}, "strategy.seed", "-1", "digits"),
    ({"strategy": {"name": "random", "seed": True}}, "strategy.seed", "True", "digits"),
    ({"budget": {}}, "budget", "{}", "key: value"),
    ({"budget": {"trials": 3, "seconds": 4}}, "budget", "{'trials': 3, 'seconds': 4}", "budget: {trials: 100}"),
    ({"budget": {"trials": "100"}}, "budget.trials", "'100'", "without quotes"),
    ({"budget": {"trials": 0}}, "budget.trials", "0", "digits"),
    ({"budget": {"seconds": -2}}, "budget.seconds", "-2", "digits"),
    ({"budget": {"hours": 1}}, "budget.hours", "'hours'", "known: trials, seconds"),
    # Finding 8 of issue 17: numbers of 400 digits were tracebacks.
    ({"budget": {"seconds": HUGE}}, "budget.seconds", "1000", "digits"),
    ({"budget": {"seconds": float("inf")}}, "budget.seconds", "inf", "digits"),
    ({"budget": {"trials": HUGE}}, "budget.trials", "1000", "digits"),
    ({"strategy": {"name": "tpe", "seed": HUGE}}, "strategy.seed", "1000", "digits"),
    (kernels(problems=[{"m": HUGE}]), "kernels[0].problems[0].m", "1000", "no tensor"),
    (kernels(problems=[{"m": -HUGE}]), "kernels[0].problems[0].m", "-1000", "no tensor"),
    (kernels(problems=[{"m": 16**5000}]), "kernels[0].problems[0].m", "int, which cannot be shown", "no tensor"),
    ({"seeds": "t.json"}, "seeds", "'t.json'", "write [a, b]"),
    ({"seeds": ["t.json"]}, "seeds[0]", "'t.json'", "did you mean /"),
    ({"modes": ["statc"]}, "modes[0]", "'statc'", "did you mean static?"),
    ({"modes": ["static", "static"]}, "modes[1]", "'static'", "remove the second"),
    ({"output": "out"}, "output", "'out'", "throwaway copy"),
]


@pytest.mark.parametrize(("changes", "path", "got", "remedy"), WRONG, ids=lambda v: v if isinstance(v, str) else None)
def test_a_wrong_field_is_named(changes: dict[str, Any], path: str, got: str, remedy: str) -> None:
    with pytest.raises(SpecError) as error:
        parse(spec_data() | changes)
    assert error.value.where == path
    assert str(error.value.got).startswith(got)
    assert remedy in error.value.hint


@pytest.mark.parametrize("field", ["name", "kernels", "device_classes", "strategy", "budget"])
def test_a_missing_field_is_named(field: str) -> None:
    data = spec_data()
    del data[field]
    with pytest.raises(SpecError, match=f"at {field}"):
        parse(data)


@pytest.mark.parametrize("data", [None, [], "text", 3])
def test_a_spec_is_a_mapping(data: object) -> None:
    with pytest.raises(SpecError, match="top level"):
        parse(data)


def test_a_spec_survives_the_journals_header() -> None:
    whole = parse(spec_data(modes=["dynamic", "static"], seeds=["/t.json"], output="/o", budget={"seconds": 2}))
    assert parse(whole.to_json()) == whole
    assert whole.budget == Budget(seconds=2.0)
    assert parse(parse(spec_data()).to_json()) == parse(spec_data())


@pytest.mark.parametrize("number", ["9" * 400, "9" * 5000, "2026-13-45", "0x" + "f" * 5000, "[" * 5000])
def test_whatever_a_file_says_is_one_error_that_fits_a_screen(tmp_path: Path, number: str) -> None:
    """Finding 8 of issue 17: Python reads no number of 5000 digits, and YAML no thirteenth month."""
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump(spec_data()) + f"output: {number}\n")
    with pytest.raises(SpecError, match=re.escape(str(path))) as error:
        spec.read(path)
    assert len(str(error.value)) < 1500


def test_the_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    with pytest.raises(SpecError, match=re.escape(str(path))):
        spec.read(path)
    path.write_text("name: [")
    with pytest.raises(SpecError, match=f"YAML(.|\n)*{re.escape(str(path))}"):
        spec.read(path)
    path.write_text("name: x\nkernel: []\n")
    with pytest.raises(SpecError, match=f"at kernel in {re.escape(str(path))}\n(.*)did you mean kernels"):
        spec.read(path)


class FakeKernel:
    def inputs(self, *, device: str = "cpu", seed: int = 0, **problem: Any) -> tuple[Any, ...]:
        assert device == "meta"
        return self._inputs(**problem)

    def _inputs(self, m: int, dtype: str = "float32") -> tuple[Any, ...]:
        if m > 100:
            raise ValueError("m must be at most 100")
        return ()


def load(ref: str) -> FakeKernel:
    if ref == "a.b:broken":
        raise ImportError("No module named 'cutlas'")
    if ref == "a.b:missing":
        raise SpecError("a module must define the kernel", got=repr(ref), hint="it defines: k")
    return FakeKernel()


@pytest.mark.parametrize(
    ("changes", "path", "text"),
    [
        ({"strategy": {"name": "bayes"}}, "strategy.name", "known: random, tpe"),
        (kernels(kernel="a.b:broken"), "kernels[0].kernel", "ImportError: No module named 'cutlas'"),
        (kernels(kernel="a.b:missing"), "kernels[0].kernel", "it defines: k"),
        (kernels(problems=[{"m": 1}, {"m": 1, "k": 2}]), "kernels[0].problems[1].k", "keyword arguments"),
        (kernels(problems=[{"m": 101}]), "kernels[0].problems[0]", "m must be at most 100"),
        (kernels() | {"seeds": ["/no/such/table.json"]}, "seeds[0]", "exported table"),
    ],
)
def test_what_only_an_import_shows_is_named(changes: dict[str, Any], path: str, text: str) -> None:
    with pytest.raises(SpecError) as error:
        check(parse(spec_data(**kernels()) | changes), load, ("random", "tpe"))
    assert error.value.where == path
    assert text in str(error.value)
    check(parse(spec_data(**kernels())), load, ("random", "tpe"))
