"""The project layout: every room is listed, imports point one way, and no room knows what it must not."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import goodformer

SOURCE = Path(goodformer.__file__).parent

BASE = {"errors", "limits", "settings", "registry", "spec", "batch"}
DISK = BASE | {"files"}
NAMES = {"data", "models", "methods"}
MAY_IMPORT = {
    "errors": set(),
    "limits": {"errors"},
    "settings": {"errors", "limits"},
    "files": {"errors"},
    "registry": {"errors", "settings", "files"},
    "spec": {"errors", "limits"},
    "batch": set(),
    "transforms": BASE,
    "data": DISK | {"transforms"},
    "nn": BASE,
    "models": BASE | {"nn"},
    "methods": BASE | {"nn", "models"},
    "config": DISK | NAMES,
    "engine": DISK | NAMES | {"transforms", "config", "__init__"},
    "uncertainty": DISK | {"data", "transforms", "methods", "config", "engine"},
    "fitted": DISK | NAMES | {"transforms", "config", "engine", "uncertainty", "__init__"},
    "explain": DISK | {"data", "methods", "engine", "fitted"},
    "draw": DISK | {"data", "explain"},
    "report": DISK | {"data", "config", "engine"},
    "executors": DISK | {"data", "config", "engine", "__init__"},
    "pages": DISK | {"data", "config", "engine", "uncertainty", "fitted", "explain", "draw", "report", "__init__"},
    "apply": DISK
    | {"data", "transforms", "methods", "config", "engine", "uncertainty", "fitted", "explain", "draw", "pages"},
    "estimator": DISK | {"data", "config", "engine", "uncertainty", "fitted", "explain", "apply"},
    "serve": DISK | {"data", "fitted", "explain", "draw", "pages", "apply", "__init__"},
    "export": DISK | {"methods", "fitted", "uncertainty"},
    "quickstart": DISK | {"data", "config", "engine", "fitted", "draw", "report", "pages"},
    "comparing": {"data", "config", "report", "executors", "__init__"},
    "reproducing": {"errors", "data", "engine", "fitted", "draw", "report", "comparing"},
    "cli": None,
    "__init__": None,
    "__main__": {"cli"},
}
"""What each room may import besides itself; None stands for everything. ``__init__`` loads names on first use."""
LIGHT = (
    "config",
    "report",
    "comparing",
    "reproducing",
    "executors",
    "engine.store",
    "engine.bootstrap",
    "cli.runs",
    "cli.compare",
    "cli.reproduce",
    "cli.methods",
)
"""Modules that must not import torch: commands that read records start within a second."""
LIBRARIES = {
    "lightning": {"engine/loop.py"},
    "rdkit": {"data/molecule.py", "draw/molecules.py", "transforms/properties.py"},
    "spacy": {"data/benchmarks/parse.py"},
    "pooch": {"data/acquire.py"},
    "pyarrow": {"data/readers/rows.py"},
    "ray": {"executors/ray.py"},
}
"""Heavy libraries and the files that import them."""


def files(*rooms: str) -> list[Path]:
    """The source files of some rooms, or of all."""
    return [path for path in sorted(SOURCE.rglob("*.py")) if not rooms or room(path) in rooms]


def room(path: Path) -> str:
    """The room that a file belongs to."""
    return path.relative_to(SOURCE).with_suffix("").parts[0]


@cache
def tree(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imports(path: Path) -> Iterator[str]:
    """Modules that a file imports, at its top or inside a function."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively; write the full name"
            within = [f"goodformer.{alias.name}" for alias in node.names] if node.module == "goodformer" else []
            yield from within or [node.module or ""]


def imported_rooms(path: Path) -> set[str]:
    """Rooms of this package that a file imports."""
    own = [name.split(".") for name in imports(path) if name.split(".")[0] == "goodformer"]
    return {parts[1] if len(parts) > 1 and parts[1] in MAY_IMPORT else "__init__" for parts in own}


def relative(path: Path) -> str:
    """A file's path below the package."""
    return path.relative_to(SOURCE).as_posix()


def test_every_room_is_listed() -> None:
    found = {room(path) for path in files()}
    assert found == set(MAY_IMPORT)


def test_imports_point_one_way() -> None:
    wrong = {
        relative(path): imported_rooms(path) - {room(path)} - allowed
        for path in files()
        if (allowed := MAY_IMPORT[room(path)]) is not None and imported_rooms(path) - {room(path)} - allowed
    }
    assert not wrong


def test_an_upward_import_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "sly.py").write_text("def f():\n    from goodformer.cli import output\n    import goodformer.fitted\n")
    assert imported_rooms(tmp_path / "sly.py") == {"cli", "fitted"}


def test_the_order_of_rooms_has_no_cycle() -> None:
    left = {name: set(allowed) - {"__init__"} for name, allowed in MAY_IMPORT.items() if allowed is not None}
    while left:
        free = {name for name, allowed in left.items() if not allowed & set(left)}
        assert free, f"these rooms may import each other: {sorted(left)}"
        left = {name: allowed for name, allowed in left.items() if name not in free}


def module_imports(path: Path) -> set[Path]:
    """Source files that a file imports, at its top or inside a function, but not for type checking alone."""
    typing_only = {
        child
        for node in ast.walk(tree(path))
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for child in ast.walk(node)
    }
    found = set()
    for node in ast.walk(tree(path)):
        if node in typing_only:
            continue
        if isinstance(node, ast.Import):
            found |= {source(alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {source(f"{node.module}.{alias.name}") or source(node.module or "") for alias in node.names}
    return {file for file in found if file} - {path, SOURCE / "__init__.py"}


def source(module: str) -> Path | None:
    """The file of a module of this package."""
    place = SOURCE.parent.joinpath(*module.split("."))
    return next((file for file in (place.with_suffix(".py"), place / "__init__.py") if file in set(files())), None)


def test_no_module_imports_itself_through_others() -> None:
    """Not even inside a function, which hides a cycle instead of removing it."""
    left = {path: module_imports(path) for path in files()}
    while left:
        free = {path for path, needs in left.items() if not needs & set(left)}
        assert free, f"these modules are in a cycle or import one: {sorted(map(relative, left))}"
        left = {path: needs for path, needs in left.items() if path not in free}


def test_nothing_imports_the_lab_or_the_benchmarks() -> None:
    assert not [
        relative(path) for path in files() if {name.split(".")[0] for name in imports(path)} & {"lab", "benchmarks"}
    ]


@pytest.mark.parametrize("module", LIGHT)
def test_light_modules_do_not_import_torch(module: str) -> None:
    paths = [SOURCE / f"{module.replace('.', '/')}.py", *(SOURCE / module).glob("*.py")]
    names = [
        relative(path).removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        for path in paths
        if path.is_file()
    ]
    code = f"import sys\nfor name in {names}: __import__(f'goodformer.{{name}}')\nassert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_heavy_library_is_imported_in_few_files(library: str) -> None:
    found = {relative(path) for path in files() if library in {name.split(".")[0] for name in imports(path)}}
    assert found == LIBRARIES[library]


def test_only_draw_uses_matplotlib() -> None:
    drawing = {room(path) for path in files() if "matplotlib" in {name.split(".")[0] for name in imports(path)}}
    assert drawing == {"draw"}


def test_models_never_see_a_label_or_an_environment() -> None:
    for path in files("nn", "models"):
        seen = [node for node in ast.walk(tree(path)) if isinstance(node, ast.Attribute) and node.attr in ("y", "env")]
        assert not [f"{relative(path)}:{node.lineno}" for node in seen]


def test_methods_never_see_an_optimiser() -> None:
    assert not [
        relative(path)
        for path in files("methods", "models", "nn")
        if any(name.startswith("torch.optim") for name in imports(path))
    ]


def test_no_branch_on_a_name() -> None:
    """The engine never compares with the name of a method, nor methods and models with that of a data set."""
    from goodformer.data import DATASETS
    from goodformer.methods import METHODS

    names = {"engine": set(METHODS), "methods": set(DATASETS), "models": set(DATASETS)}
    for place, forbidden in names.items():
        for path in files(place):
            compared = [node for node in ast.walk(tree(path)) if isinstance(node, ast.Compare | ast.match_case)]
            constants = {leaf.value for node in compared for leaf in ast.walk(node) if isinstance(leaf, ast.Constant)}
            assert not constants & forbidden, relative(path)


def test_no_module_for_odds_and_ends() -> None:
    odd = {"utils", "util", "misc", "common", "helper", "helpers", "manager"}
    assert not [relative(path) for path in files() if odd & set(path.with_suffix("").parts[-2:])]
