"""MLflow. Its own environment variables say where runs are recorded: MLFLOW_TRACKING_URI, and so on."""

import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mrq.training.listeners.tracker import Rows
from mrq.training.run_folder import RunFolder

MOST_METRICS, MOST_PARAMETERS = 1_000, 100  # in one call
LONGEST_VALUE = 6_000  # characters of a parameter


class MLflowRun:
    """One run there."""

    keeps = True

    def __init__(self, folder: RunFolder, known: str | None) -> None:
        from mlflow import MlflowClient
        from mlflow.entities import Metric, Param

        self._client: Any = MlflowClient()
        self._metric: Any = Metric
        if known is None:
            experiment = os.environ.get("MLFLOW_EXPERIMENT_ID") or self._experiment()
            run = self._client.create_run(experiment, run_name=folder.identity.name)
            parameters = [Param(name, value) for name, value in _flat(folder.document())]
            for start in range(0, len(parameters), MOST_PARAMETERS):
                self._client.log_batch(run.info.run_id, params=parameters[start : start + MOST_PARAMETERS])
        else:
            run = self._client.get_run(known)
            self._client.update_run(known, status="RUNNING")
        self.id = str(run.info.run_id)
        self.place = f"run {self.id} of experiment {run.info.experiment_id}"

    def log(self, rows: Rows) -> None:
        now = round(1_000 * time.time())
        metrics = [self._metric(name, value, now, at) for at, row in rows.items() for name, value in row.items()]
        for start in range(0, len(metrics), MOST_METRICS):
            self._client.log_batch(self.id, metrics=metrics[start : start + MOST_METRICS])

    def film(self, steps: int, path: Path) -> None:
        self._client.log_artifact(self.id, str(path), "films")

    def checkpoint(self, steps: int, name: str) -> None:
        self._client.set_tag(self.id, "checkpoint", name)

    def end(self, complete: bool) -> None:
        self._client.set_terminated(self.id, "FINISHED" if complete else "KILLED")

    def _experiment(self) -> str:
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "mrq")
        found = self._client.get_experiment_by_name(name)
        return str(self._client.create_experiment(name) if found is None else found.experiment_id)


def _flat(document: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """Returns the names and values of what stands in a document, however deep."""
    for name, value in document.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield before + name, (value if isinstance(value, str) else json.dumps(value))[:LONGEST_VALUE]
