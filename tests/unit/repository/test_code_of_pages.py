"""What pages name in code exists: commands, options, scripts, modules, names, files, and the data of figures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import typer
from tile_testing import ROOT
from tileflow_experiments.cli import app

PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in [
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")),
    ]
    if path.name not in ("language.md", "knobs.md")
    or path.parent.name != "reference"  # tests hold these to their tables
)
FOLDERS = ("tileflow", "search", "cluster", "experiments", "examples", "scripts", "configs", "tests")
SUFFIXES = (".py", ".c", ".yaml", ".toml", "")  # scripts have none
PACKAGES = {
    "tileflow": ROOT / "tileflow",
    "examples": ROOT / "examples",
    **{path.name: path for path in ROOT.glob("*/tileflow_*") if path.is_dir()},
    **{path.parent.name: path.parent for path in (ROOT / "tileflow").glob("*/__init__.py")},  # as pages shorten them
}

OTHERS = {  # names that pages say of other projects, and of files that are made elsewhere
    "torch": {
        "as_subclass",
        "allow_tf32",
        "use_deterministic_algorithms",
        "epilogue_fusion_user_defined_triton_kernel",
    },
    "Helion": {"aot_runner"},
    "vLLM": {"direct_register_custom_op", "NVIDIA_H200"},
    "MLflow": {"update_run_info", "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_TOKEN"},
}
COMPOSED = {  # names that the code puts together
    "modelled_best_us": '"modelled_"',
    "tileflow_misses_total": '"_total"',
    "part_N": 'f"part_{number}',
}
OPTIONS_OF_OTHERS = {"--working-dir", "--address", "--host", "--port", "--workers", "--backend-store-uri", "--labels"}


@cache
def sources() -> str:
    paths = (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*")))
    read = [
        path.read_text() for path in paths if path.is_file() and path.suffix in SUFFIXES and path.parent.name != "data"
    ]
    return "\n".join(
        [*read, *((ROOT / name).read_text() for name in ("pyproject.toml", "hatch_build.py", "docs/site.py"))]
    )


@cache
def words() -> set[str]:
    stems = {path.stem for folder in FOLDERS for path in (ROOT / folder).rglob("*")}
    return {*re.findall(r"\w+", sources())} | stems


def blocks_of(text: str) -> list[str]:
    return re.findall(r"^```[^\n]*\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def spans_of(text: str) -> list[str]:
    """What stands between backticks on a line, outside of blocks."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE))


def code_of(page: str) -> list[str]:
    """A page's spans, and its blocks' lines, where one that ends in a backslash goes on."""
    text = (ROOT / page).read_text()
    lines = (line for block in blocks_of(text) for line in block.replace("\\\n", " ").splitlines())
    return [*spans_of(text), *(line.partition("  #")[0] for line in lines)]


@pytest.mark.parametrize("page", PAGES)
def test_names_in_spans_are_in_the_sources(page: str) -> None:
    """Names with an underscore: those that people look for. A page's own code may define some."""
    text = (ROOT / page).read_text()
    own = {word for block in blocks_of(text) for word in re.findall(r"\w+", block)}
    others = {word for named in OTHERS.values() for word in named}
    named = {word for span in spans_of(text) for word in re.findall(r"(?<![\w-])[A-Za-z]\w*_\w+", span)}
    assert sorted(named - words() - own - others - COMPOSED.keys()) == []


def test_names_that_are_put_together_are_so() -> None:
    assert [name for name, text in COMPOSED.items() if text not in sources()] == []


def leads_somewhere(dotted: str) -> bool:
    """Whether modules are there, and the last one says the name that follows them."""
    head, *rest = dotted.split(".")
    place = PACKAGES[head]
    for part in rest:
        if (place / part).is_dir():
            place /= part
        elif (place / f"{part}.py").exists():
            place /= f"{part}.py"
        else:
            text = (place if place.is_file() else place / "__init__.py").read_text()
            return re.search(rf"\b{part}\b", text) is not None
    return True


TAGS = re.compile(
    r"tileflow\.(status|error|host|config|times|best_config|sweep_id|trial_id|json|dev)$"
)  # of MLflow's runs; labels


@pytest.mark.parametrize("page", PAGES)
def test_dotted_names_lead_to_what_there_is(page: str) -> None:
    dotted = {
        name for code in code_of(page) for name in re.findall(r"(?<![\w./-])[A-Za-z_]\w*(?:\.[A-Za-z]\w*)+", code)
    }
    ours = {name for name in dotted if name.split(".")[0] in PACKAGES and not TAGS.match(name)}
    assert sorted(name for name in ours if not name.endswith((".py", ".md")) and not leads_somewhere(name)) == []


def commands_of(code: str) -> Iterator[list[str]]:
    """The words behind each `tileflow` that is a command."""
    for said in re.split(r"&&|;|-- (?=tileflow )", code):
        if re.match(r"\s*(uv run )?tileflow [a-z]", said):
            yield said.split()[1:]


def problem_of(given: list[str]) -> str | None:
    """What the command line does not know of a command."""
    command: Any = typer.main.get_command(app)  # its class is click's, or typer's own copy of that
    while (commands := getattr(command, "commands", None)) and given and re.fullmatch(r"[a-z-]+", given[0]):
        if given[0] not in commands:
            return f"no command {given[0]}"
        command, given = commands[given[0]], given[1:]
    known = {option for p in command.params for option in [*p.opts, *p.secondary_opts]} | {"--help"}
    said = [re.sub(r"[\]).,:;=].*$", "", word.lstrip("[(")) for word in given]
    unknown = [word for word in said if word.startswith("--") and word not in known]
    if unknown:
        return f"no option {unknown} of {command.name}"
    wanted = [
        p.opts[0] for p in command.params if p.param_type_name == "option" and p.required and not {*p.opts} & {*said}
    ]
    is_whole = bool(given) and "..." not in given  # else the command alone is named
    return f"{command.name} needs {wanted}" if wanted and is_whole else None


@pytest.mark.parametrize("page", PAGES)
def test_commands_and_options_are_those_of_the_command_line(page: str) -> None:
    told = {" ".join(given): problem_of(given) for code in code_of(page) for given in commands_of(code)}
    assert {command: problem for command, problem in told.items() if problem} == {}


def test_commands_are_found() -> None:
    assert sum(1 for page in PAGES for code in code_of(page) for _ in commands_of(code)) > 30
    assert problem_of(["sweep", "run", "x.yaml", "--out", "d"]) is None
    assert problem_of(["sweep", "begin"]) == "no command begin"
    assert problem_of(["sweep", "run", "[--nowhere]"]) == "no option ['--nowhere'] of run"
    assert problem_of(["show", "module:kernel"]) == "show needs ['--problem']"
    assert problem_of(["show"]) is None


@pytest.mark.parametrize("page", PAGES)
def test_options_are_in_the_sources(page: str) -> None:
    """Of every command, also of programs whose parser is their own: the option's text, or typer's name of it."""
    said = {option for code in code_of(page) for option in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", code)}
    known = {option for option in said if option in sources() or option[2:].replace("-", "_") in words()}
    assert sorted(said - known - OPTIONS_OF_OTHERS) == []


@pytest.mark.parametrize("page", PAGES)
def test_scripts_and_modules_that_are_run_exist(page: str) -> None:
    code = "\n".join(code_of(page))
    scripts = [ROOT / "scripts" / name for name in re.findall(r"(?<![\w/])scripts/(\w+)", code)]
    assert [path.name for path in scripts if not path.exists() and not path.with_suffix(".py").exists()] == []
    modules = [name for name in re.findall(r"python -[mP]+ ([\w.]+)", code) if name.split(".")[0] in PACKAGES]
    assert [name for name in modules if not leads_somewhere(name)] == []


def is_there(path: str, page: str) -> bool:
    """From the root, from the page, or from a folder of the sources that the page speaks of."""
    return (
        (ROOT / path).exists()
        or (ROOT / page).parent.joinpath(path).exists()
        or any((base / path).exists() for base in (*PACKAGES.values(), ROOT / "tests", ROOT / "tests/tile_testing"))
    )


@pytest.mark.parametrize("page", PAGES)
def test_files_of_the_sources_exist(page: str) -> None:
    spans = spans_of((ROOT / page).read_text())
    named = {file for span in spans for file in re.findall(r"(?<![\w./{-])(?:[a-z_]\w*/)+\w+\.py\b", span)}
    assert sorted(file for file in named if not is_there(file, page)) == []


def rows_of_folders() -> list[list[str]]:
    """The tables of "The folders": the code of each row's cells."""
    text = (ROOT / "docs/explanations/architecture.md").read_text()
    section = text.partition("\n## The folders\n")[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| `")]
    return [[" ".join(spans_of(cell)) for cell in row] for row in rows]


def test_the_architecture_names_every_folder_and_module_of_the_top() -> None:
    named = {name.rstrip("/") for row in rows_of_folders() for name in row[0].split()}
    top = {
        path.name for path in (ROOT / "tileflow").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    packages = {
        path.relative_to(ROOT).as_posix() for path in ROOT.glob("*/tileflow_*") if (path / "__init__.py").exists()
    }
    assert {name.partition("/")[0] if name.startswith("compat/") else name for name in named} == (
        top - {"__init__.py"} | packages
    )


def test_the_architecture_begins_with_modules_that_there_are() -> None:
    for first, said, begin in rows_of_folders():
        folder = (
            ROOT / first if first.startswith(("search/", "cluster/", "experiments/")) else ROOT / "tileflow" / first
        )
        folder = folder if folder.is_dir() else ROOT / "tileflow"
        files = [*re.findall(r"[\w/]+\.py", begin), *re.findall(r"\w+/", said)]
        assert [file for file in files if not (folder / file).exists()] == [], first


DATA = sorted(path.name for path in (ROOT / "docs/data").iterdir())


def test_data_are_cited_by_a_page() -> None:
    """What no page cites is found by nobody; a pattern (`production-*.json`) cites what it matches."""
    text = "\n".join((ROOT / page).read_text() for page in PAGES)
    cited = {re.sub(r"\\\*", r"[\\w-]*", re.escape(name)) for name in re.findall(r"\bdata/([\w*.-]+\.json)", text)}
    assert [name for name in DATA if not any(re.fullmatch(pattern, name) for pattern in cited)] == []


def test_data_that_are_cited_exist() -> None:
    named = {name for page in PAGES for name in re.findall(r"\bdata/([\w.-]+\.json)", (ROOT / page).read_text())}
    named |= {*re.findall(r"\bdocs/data/([\w.-]+\.json)", sources())}
    assert sorted(named - {*DATA}) == []
