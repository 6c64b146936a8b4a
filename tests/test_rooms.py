"""The house: every room is listed, imports point one way, and no room knows what it must not."""

import ast
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

import pytest

import goodformer
from goodformer.data import DATASETS
from goodformer.methods import METHODS

SOURCE = Path(goodformer.__file__).parent

BASE = {"registry", "spec"}
DISK = BASE | {"files"}
MAY_IMPORT = {
    "registry": set(),
    "spec": {"registry"},
    "files": {"registry"},
    "transforms": BASE,
    "data": DISK | {"transforms"},
    "nn": BASE,
    "models": BASE | {"nn"},
    "methods": BASE | {"nn", "models"},
    "explain": DISK | {"data", "methods"},
    "draw": DISK | {"data", "explain"},
    "engine": DISK | {"transforms", "data", "models", "methods", "explain", "__init__"},
    "experiments": DISK | {"transforms", "data", "nn", "models", "methods", "explain", "draw", "engine", "__init__"},
    "apply": DISK | {"data", "explain", "draw", "engine", "experiments"},
    "estimator": DISK | {"data", "engine", "experiments", "apply"},
    "cli": DISK | {"data", "models", "methods", "explain", "draw", "engine", "experiments", "apply", "__init__"},
    "__init__": BASE | {"data", "models", "methods", "explain", "draw", "engine", "experiments", "estimator"},
    "__main__": {"cli"},
}
"""What each room may import, beside itself. ``__init__`` loads its names only when they are used."""


def files(*rooms: str) -> list[Path]:
    """The source files of some rooms, or of all."""
    return [path for path in sorted(SOURCE.rglob("*.py")) if not rooms or room(path) in rooms]


def room(path: Path) -> str:
    """The room a file lies in."""
    return path.relative_to(SOURCE).with_suffix("").parts[0]


@cache
def tree(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imports(path: Path) -> Iterator[str]:
    """Modules a file imports, wherever in it."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively; write the whole name"
            within = [f"goodformer.{alias.name}" for alias in node.names] if node.module == "goodformer" else []
            yield from within or [node.module or ""]


def imported_rooms(path: Path) -> set[str]:
    """Rooms of this package that a file imports."""
    names = {name.split(".")[1] if "." in name else "__init__" for name in imports(path) if _ours(name)}
    return {name if name in MAY_IMPORT else "__init__" for name in names}


def _ours(name: str) -> bool:
    return name == "goodformer" or name.startswith("goodformer.")


def test_every_room_is_listed() -> None:
    found = {path.stem if path.suffix == ".py" else path.name for path in SOURCE.iterdir() if _is_room(path)}
    assert found == set(MAY_IMPORT)


def _is_room(path: Path) -> bool:
    return path.suffix == ".py" or (path.is_dir() and any(path.glob("*.py")))


def test_the_order_has_no_circle() -> None:
    left = {name: set(allowed) - {"__init__"} for name, allowed in MAY_IMPORT.items()}
    while left:
        free = {name for name, allowed in left.items() if not allowed & set(left)}
        assert free, f"these rooms may import each other in a circle: {sorted(left)}"
        left = {name: allowed for name, allowed in left.items() if name not in free}


def test_no_file_imports_itself_by_way_of_others() -> None:
    """The package alone is left out: it loads its names only when they are used."""
    homes = {name(path): path for path in files() if name(path) != "goodformer"}
    left = {home: set(imported_files(path, homes)) - {home} for home, path in homes.items()}
    while left:
        free = {home for home, taken in left.items() if not taken & set(left)}
        assert free, f"these files import each other in a circle: {sorted(left)}"
        left = {home: taken for home, taken in left.items() if home not in free}


def name(path: Path) -> str:
    """What a file is called when it is imported."""
    return ".".join(("goodformer", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")


def imported_files(path: Path, known: Collection[str]) -> Iterator[str]:
    """Which of the known files a file imports, wherever in it."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            yield from inside & set(known) or {node.module or ""} & set(known)


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_one_way(path: Path) -> None:
    assert imported_rooms(path) - {room(path)} <= MAY_IMPORT[room(path)]


def test_an_upward_import_would_be_seen(tmp_path: Path) -> None:
    (tmp_path / "sly.py").write_text(
        "def f():\n    from goodformer.cli import output\n    import goodformer.engine.run\n"
    )
    assert imported_rooms(tmp_path / "sly.py") == {"cli", "engine"}


def test_lightning_is_known_in_one_file() -> None:
    knowing = [
        path
        for path in files()
        if any(name.split(".")[0] in ("lightning", "pytorch_lightning") for name in imports(path))
    ]
    assert [str(path.relative_to(SOURCE)) for path in knowing] == ["engine/lightning.py"]


@pytest.mark.parametrize(
    ("library", "knowing"),
    [
        ("rdkit", {"data/molecule.py", "draw/molecules.py"}),
        ("spacy", {"data/parse.py"}),
        ("pooch", {"data/acquire.py"}),
        ("pyarrow", {"data/rows.py"}),
    ],
)
def test_a_heavy_library_is_known_in_few_files(library: str, knowing: set[str]) -> None:
    found = {
        str(path.relative_to(SOURCE)) for path in files() if library in {name.split(".")[0] for name in imports(path)}
    }
    assert found == knowing


def test_only_pictures_are_drawn_with_matplotlib() -> None:
    drawing = {path for path in files() if any(name.split(".")[0] == "matplotlib" for name in imports(path))}
    assert not [path for path in drawing - set(files("draw")) if not path.stem.endswith("picture")]


def test_engine_takes_only_figures_of_merit_from_explain() -> None:
    taken = {name for path in files("engine") for name in imports(path) if name.startswith("goodformer.explain")}
    assert taken <= {"goodformer.explain.precision"}


@pytest.mark.parametrize("path", files("nn", "models"), ids=lambda path: path.stem)
def test_models_never_see_a_label_or_environment(path: Path) -> None:
    seen = [node for node in ast.walk(tree(path)) if isinstance(node, ast.Attribute) and node.attr in ("y", "env")]
    assert not [f"line {node.lineno}" for node in seen]


@pytest.mark.parametrize("path", files("methods", "models", "nn"), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_methods_never_see_an_optimiser(path: Path) -> None:
    assert not [name for name in imports(path) if name.startswith("torch.optim")]


def test_no_branch_on_a_name() -> None:
    """The engine does not compare with a method's name, nor anything below it with that of a data set."""
    names = {"engine": set(METHODS.entries), "methods": set(DATASETS.entries), "models": set(DATASETS.entries)}
    for place, forbidden in names.items():
        for path in files(place):
            compared = [node for node in ast.walk(tree(path)) if isinstance(node, ast.Compare | ast.match_case)]
            constants = {leaf.value for node in compared for leaf in ast.walk(node) if isinstance(leaf, ast.Constant)}
            assert not constants & forbidden, path


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_room_for_odds_and_ends(path: Path) -> None:
    assert not {"utils", "util", "misc", "common", "helper", "helpers", "manager"} & set(
        path.with_suffix("").parts[-2:]
    )
