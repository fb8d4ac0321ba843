"""Keeps the rules of the house, so that nobody has to remember them."""

import ast
import importlib.metadata
import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "raftsched"
GENERATED = (PACKAGE / "v1", PACKAGE / "internal")

# From the top; a layer imports only those after it.
LAYERS = ("cli", "api", "node", "dispatch", "raft", "state", "store", "model")
PURE_LAYERS = ("state", "model")
NOT_IN_PURE_LAYERS = {"grpc", "asyncio", "threading", "time", "random"}

TOP_LEVEL = {
    ".ci",
    ".gitattributes",
    ".gitignore",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "LICENSE",
    "README.md",
    "bench",
    "clients",
    "cluster",
    "proto",
    "pyproject.toml",
    "src",
    "tests",
}

MAX_LINES = 500

# Spelled in pieces, so that this file does not hold what it forbids.
FORBIDDEN = {
    "a path of one machine": re.compile(r"(?<![\w.])/(work|farm)/" + r"\w|/tmp/" + r"(brief|venv)"),
    "work left undone": re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b"),
    "how it was made": re.compile(
        r"(?i)\b(helper" + r" session|language" + r" model|the" + r" brief\b|co-authored" + r"-by)"
    ),
}


def is_generated(path: Path) -> bool:
    return any(path.is_relative_to(folder) for folder in GENERATED) and path.name != "__init__.py"


def own_python_files(*folders: str) -> list[Path]:
    """Python files below these folders of the repository that people maintain."""
    files = (path for folder in folders for path in sorted((ROOT / folder).rglob("*.py")))
    return [path for path in files if not is_generated(path) and ".venv" not in path.parts]


def text_files() -> Iterator[Path]:
    """Every text file of the project, generated ones included."""
    for name in sorted(TOP_LEVEL - {".gitignore"}):
        top = ROOT / name
        for path in [top] if top.is_file() else sorted(top.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts and path.suffix not in {".png", ".pyc"}:
                yield path


def imports_of(path: Path) -> Iterator[tuple[str, int]]:
    """Absolute dotted names that a file imports, with their lines; `from a import b` yields a.b."""
    package = path.relative_to(ROOT / "src").with_suffix("").parts[:-1]
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(part for part in (base, node.module) if part)
            for alias in node.names:
                yield f"{module}.{alias.name}", node.lineno


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def objection(layer: str, name: str) -> str | None:
    """Why a module of this layer must not import this dotted name; None when it may."""
    parts = name.split(".")
    if layer in PURE_LAYERS and parts[0] in NOT_IN_PURE_LAYERS:
        return f"{layer}/ is pure"
    if parts[0] != "raftsched" or len(parts) < 2 or parts[1] in {"v1", layer}:
        return None
    if layer == "client":
        return "client/ knows only itself and the stubs"
    if parts[1] == "client":
        return None if layer == "cli" else "only cli/ uses the client"
    if parts[1] in LAYERS and LAYERS.index(parts[1]) < LAYERS.index(layer):
        return f"{parts[1]}/ is above {layer}/"
    return None


def test_layers_import_downwards_only() -> None:
    violations = []
    for path in own_python_files("src"):
        layer = path.relative_to(PACKAGE).parts[0]
        if path.parent == PACKAGE or layer in {"v1", "internal"}:
            continue
        for name, line in imports_of(path):
            if reason := objection(layer, name):
                violations.append(f"{relative(path)}:{line} imports {name}: {reason}")
    assert not violations, "\n".join(violations)


def test_every_folder_of_the_package_is_a_known_layer() -> None:
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders <= {*LAYERS, "client", "v1", "internal"}


def test_unit_tests_mirror_the_source() -> None:
    folders = {
        path.name for path in (ROOT / "tests" / "unit").iterdir() if path.is_dir() and path.name != "__pycache__"
    }
    assert folders <= {*LAYERS, "client"}


@pytest.mark.parametrize(
    ("layer", "name"),
    [
        ("state", "raftsched.raft.replica.Replica"),
        ("model", "raftsched.store"),
        ("state", "time"),
        ("model", "asyncio.Queue"),
        ("node", "raftsched.client.Client"),
        ("client", "raftsched.model.errors.RaftschedError"),
        ("client", "raftsched.internal.v1.command_pb2"),
    ],
)
def test_a_forbidden_import_is_noticed(layer: str, name: str) -> None:
    assert objection(layer, name)


@pytest.mark.parametrize(
    ("layer", "name"),
    [
        ("raft", "raftsched.state.results.Effects"),
        ("store", "lmdb"),
        ("raft", "time"),
        ("client", "raftsched.v1.job_pb2"),
        ("cli", "raftsched.client.Client"),
        ("state", "raftsched.internal.v1.command_pb2"),
    ],
)
def test_an_allowed_import_is_not_objected_to(layer: str, name: str) -> None:
    assert objection(layer, name) is None


def test_committed_stubs_are_what_protoc_makes_of_the_protos(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "proto" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    generate.generate(tmp_path)

    fresh = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*_pb2*")}
    committed = {
        path.relative_to(ROOT / "src"): path.read_bytes() for folder in GENERATED for path in folder.rglob("*_pb2*.py*")
    }
    committed = {path: data for path, data in committed.items() if path.suffix != ".pyc"}
    assert sorted(fresh) == sorted(committed)
    assert not [str(path) for path in fresh if fresh[path] != committed[path]], "run: python proto/generate.py"


def run_tool(*arguments: str) -> None:
    done = subprocess.run([sys.executable, "-m", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(arguments)}\n{done.stdout}{done.stderr}"


def test_ruff_finds_nothing() -> None:
    run_tool("ruff", "check", "--quiet", ".")


def test_ruff_would_format_nothing_otherwise() -> None:
    run_tool("ruff", "format", "--quiet", "--check", ".")


def test_strict_types_hold() -> None:
    run_tool("mypy", "--strict")


@pytest.mark.parametrize("folder", ["src", "proto", "bench", "tests", "cluster"])
def test_files_say_their_one_reason_to_exist_and_are_short(folder: str) -> None:
    problems = []
    for path in own_python_files(folder):
        text = path.read_text()
        is_empty_package = path.name == "__init__.py" and not text.strip()
        # The name of a unit test of one layer says all: which module it is about.
        is_mirror = path.is_relative_to(ROOT / "tests" / "unit") and path.parent.name in {*LAYERS, "client"}
        if not is_empty_package and not is_mirror and not ast.get_docstring(ast.parse(text)):
            problems.append(f"{relative(path)} has no docstring")
        if text.count("\n") >= MAX_LINES:
            problems.append(f"{relative(path)} has {text.count(chr(10))} lines, the most is {MAX_LINES - 1}")
    assert not problems, "\n".join(problems)


def test_no_text_speaks_of_one_machine_or_of_how_it_was_made() -> None:
    found = []
    for path in text_files():
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            found += [
                f"{relative(path)}:{number}: {what}" for what, pattern in FORBIDDEN.items() if pattern.search(line)
            ]
    assert not found, "\n".join(found)


@pytest.mark.skipif(shutil.which("git") is None or not (ROOT / ".git").exists(), reason="not a git checkout")
def test_the_top_level_holds_only_what_a_newcomer_expects() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {line.split("/")[0] for line in listed.splitlines()} <= TOP_LEVEL


def test_the_raft_library_is_the_exact_version_whose_private_names_are_overridden() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pins = [line for line in project["dependencies"] if line.startswith("pysyncobj")]
    assert pins == ["pysyncobj==0.3.17"]
    assert importlib.metadata.version("pysyncobj") == "0.3.17"


def test_the_changelog_and_the_package_agree_on_the_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert importlib.metadata.version("raftsched") == version
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased"


@pytest.mark.parametrize("script", [".ci/run", "tests/run", "cluster/demo"])
def test_scripts_can_be_run_and_parse(script: str) -> None:
    path = ROOT / script
    assert path.stat().st_mode & 0o111, f"{script} is not executable"
    assert subprocess.run(["bash", "-n", str(path)], check=False).returncode == 0
