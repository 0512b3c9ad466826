"""The shape of the project: layers, sizes, what is shipped, and documents that tell the truth about it."""

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib import import_module
from pathlib import Path

import grimp
import pytest
from packaging.requirements import Requirement

from providers.registry import BUILT_IN

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("gateway", "providers", "translators")
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("test_*.py"))
MODULE_LINES = 600
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def short(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def run(*argv: str) -> str:
    """The output of a command at the root of the project; it has to succeed."""
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stdout + done.stderr
    return done.stdout


def test_import_contracts_hold():
    """Imports go down only, and translators stay pure."""
    run(str(Path(sys.executable).with_name("lint-imports")), "--no-logo")


def test_translators_use_no_package_but_msgspec():
    """A translator needs nothing but the standard library and msgspec."""
    graph = grimp.build_graph("translators", include_external_packages=True, cache_dir=None)
    own = {module for module in graph.modules if module.partition(".")[0] == "translators"}
    used = {name for module in own for name in graph.find_modules_directly_imported_by(module)} - own
    assert {"msgspec"} == used - set(sys.stdlib_module_names)


def test_modules_are_small_enough():
    """A module that grows past 600 lines holds more than one concept."""
    assert {} == {short(path): lines for path in MODULES if (lines := len(read(path).splitlines())) > MODULE_LINES}


@pytest.mark.slow
def test_modules_say_what_they_are_for():
    """Every module opens with a docstring."""
    assert [] == [short(path) for path in MODULES if not ast.get_docstring(ast.parse(read(path)))]


@pytest.mark.slow
def test_every_test_says_what_it_shows():
    """Every test has a docstring that states the behaviour."""
    assert [] == [
        f"{short(path)}: {test.name}" for path in TESTS for test in cases_in(path) if not ast.get_docstring(test)
    ]


def cases_in(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    functions = (node for node in ast.walk(ast.parse(read(path))) if isinstance(node, FUNCTIONS))
    return [node for node in functions if node.name.startswith("test")]


@pytest.mark.parametrize(("name", "target"), PROJECT["project"]["entry-points"]["dragoman.providers"].items())
def test_entry_point_names_a_plugin(name, target):
    """Each built-in provider is where its entry point says."""
    module, _, attribute = target.partition(":")
    assert hasattr(import_module(module), attribute)


def test_checkout_has_the_plugins_of_the_distribution():
    """The built-in plugins are the same with and without an installation."""
    assert PROJECT["project"]["entry-points"]["dragoman.providers"] == BUILT_IN


def test_everything_that_is_installed_is_pinned():
    """constraints.txt has an exact version for each requirement of the project, its extras, groups and build."""
    lines = read(ROOT / "constraints.txt").splitlines()
    pinned = {normal(line.partition("==")[0]) for line in lines if "==" in line}
    assert [] == [line for line in lines if not re.fullmatch(r"#.*|[\w.-]+==[\w.]+", line)]
    project = PROJECT["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    groups += [*PROJECT["dependency-groups"].values(), PROJECT["build-system"]["requires"]]
    assert set() == {normal(Requirement(text).name) for group in groups for text in group} - pinned


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> list[str]:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder))
    (built,) = folder.glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        return archive.namelist()


@pytest.mark.slow
@pytest.mark.promise("S43")
def test_wheel_holds_the_sources_and_nothing_else(wheel):
    """The wheel has the files of the three packages as the repository has them, and its own metadata."""
    listed = run("git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *PACKAGES).splitlines()
    sources = {name for name in listed if (ROOT / name).exists()}
    metadata = {
        name for name in wheel if name.startswith(f"dragoman_gateway-{PROJECT['project']['version']}.dist-info/")
    }
    assert sources == set(wheel) - metadata
    assert {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"} == {
        name.partition("/")[2] for name in metadata
    }


@pytest.mark.slow
@pytest.mark.promise("S43")
def test_wheel_runs_nothing_at_interpreter_start(wheel):
    """No .pth file is shipped: one would run at every start of Python, the gateway's or not."""
    assert [] == [name for name in wheel if name.endswith(".pth")]


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_wheel_is_typed(wheel, package):
    """Each package tells type checkers that it is typed."""
    assert f"{package}/py.typed" in wheel


@pytest.mark.parametrize("document", ["README.md"])
def test_documents_name_files_that_exist(document):
    """Every path of ours that a document names is there."""
    text = read(ROOT / document)
    named = set(re.findall(r"(?<![\w/.-])((?:gateway|providers|translators|tests|docs|benchmarks)/[\w./-]*\w)", text))
    assert [] == sorted(name for name in named if not (ROOT / name).exists())


def test_readme_shows_every_package():
    """The README says what lies in each of the three packages."""
    text = read(ROOT / "README.md")
    assert [] == [package for package in PACKAGES if f"{package}/" not in text]


def test_readme_names_targets_that_exist():
    """Every `make` target of the README is one."""
    targets = set(re.findall(r"^([\w-]+):", read(ROOT / "Makefile"), re.MULTILINE))
    assert set() == set(re.findall(r"(?:`|^    )make ([\w-]+)", read(ROOT / "README.md"), re.MULTILINE)) - targets
