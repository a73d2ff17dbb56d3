"""Training algorithms and search, each one readable file; a policy directory comes out."""

from __future__ import annotations

from pymlgo.train.flip_regression import Options
from pymlgo.train.train import TrainRequest, TrainResult, train

__all__ = ["Options", "TrainRequest", "TrainResult", "train"]
