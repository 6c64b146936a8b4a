"""Graph classification under distribution shift.

The names below are loaded when they are first used, so that ``import goodformer`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from goodformer.apply.explanation import explain_graphs as explain_graphs
    from goodformer.apply.explanation import explain_run as explain_run
    from goodformer.comparing import compare as compare
    from goodformer.config.presets import configure as configure
    from goodformer.config.run import Hardware as Hardware
    from goodformer.config.run import RunConfig as RunConfig
    from goodformer.config.settings_file import configure_from as configure_from
    from goodformer.data import DATASETS as DATASETS
    from goodformer.data import load_benchmark as load_benchmark
    from goodformer.data.benchmark import Benchmark as Benchmark
    from goodformer.data.graphs import GraphSet as GraphSet
    from goodformer.data.readers.json_lines import read_graphs as read_graphs
    from goodformer.draw.subgraphs import draw_subgraphs as draw_subgraphs
    from goodformer.engine.evaluate import evaluate as evaluate
    from goodformer.engine.run import train as train
    from goodformer.engine.store import Run as Run
    from goodformer.engine.store import list_runs as list_runs
    from goodformer.errors import InputError as InputError
    from goodformer.estimator import GraphClassifier as GraphClassifier
    from goodformer.estimator import GraphRegressor as GraphRegressor
    from goodformer.fitted import FittedModel as FittedModel
    from goodformer.methods import METHODS as METHODS
    from goodformer.models import MODELS as MODELS
    from goodformer.reproducing import reproduce as reproduce

__version__ = "0.1.0"

_HOMES = {
    "goodformer.apply.explanation": ("explain_graphs", "explain_run"),
    "goodformer.comparing": ("compare",),
    "goodformer.config.presets": ("configure",),
    "goodformer.config.run": ("Hardware", "RunConfig"),
    "goodformer.config.settings_file": ("configure_from",),
    "goodformer.data": ("DATASETS", "load_benchmark"),
    "goodformer.data.benchmark": ("Benchmark",),
    "goodformer.data.graphs": ("GraphSet",),
    "goodformer.data.readers.json_lines": ("read_graphs",),
    "goodformer.draw.subgraphs": ("draw_subgraphs",),
    "goodformer.engine.evaluate": ("evaluate",),
    "goodformer.engine.run": ("train",),
    "goodformer.engine.store": ("Run", "list_runs"),
    "goodformer.estimator": ("GraphClassifier", "GraphRegressor"),
    "goodformer.fitted": ("FittedModel",),
    "goodformer.methods": ("METHODS",),
    "goodformer.models": ("MODELS",),
    "goodformer.reproducing": ("reproduce",),
    "goodformer.errors": ("InputError",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Load a public name from its module."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'goodformer' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
    return value


def __dir__() -> list[str]:
    """All public names, loaded or not."""
    return sorted([*globals(), *_HOME_OF])
