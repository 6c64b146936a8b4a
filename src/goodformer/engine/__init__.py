"""Training, evaluation and records: from a config to a finished run and a predictor."""

from goodformer.engine.config import Hardware, RunConfig, TrainingConfig
from goodformer.engine.evaluate import evaluate
from goodformer.engine.predictor import Predictions, Predictor
from goodformer.engine.run import build_method, train
from goodformer.engine.selection import select_epoch
from goodformer.engine.store import Run, export_results, list_runs
from goodformer.engine.training import TrainingDiverged

__all__ = [
    "Hardware",
    "Predictions",
    "Predictor",
    "Run",
    "RunConfig",
    "TrainingConfig",
    "TrainingDiverged",
    "build_method",
    "evaluate",
    "export_results",
    "list_runs",
    "select_epoch",
    "train",
]
