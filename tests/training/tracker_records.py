"""Reads what the real libraries of trackers recorded, from their own files."""

import json
import os
import struct
from collections import defaultdict
from pathlib import Path
from time import time_ns
from typing import NamedTuple

from tests.waiting import soon

BLOCK, HEADER = 32_768, 7  # bytes of the format in which W&B records offline, which is LevelDB's log format


class Record(NamedTuple):
    """A tracker's run."""

    values: dict  # name -> [(step, value)], in the order in which they came
    config: dict  # from dotted names to text
    checkpoint: str
    films: list  # names of files


def record_of(tracker, run):
    """Returns what a tracker knows of one run."""
    return {"wandb": _wandb, "mlflow": _mlflow, "trackio": _trackio}[tracker](run)


def runs_of(tracker):
    """Returns the names of all runs that a tracker knows."""
    if tracker == "wandb":
        return {path.name.rpartition("-")[2] for path in Path(os.environ["WANDB_DIR"]).glob("wandb/*run-*")}
    if tracker == "mlflow":
        from mlflow import MlflowClient

        client = MlflowClient()
        return {run.info.run_id for e in client.search_experiments() for run in client.search_runs([e.experiment_id])}
    import trackio

    return {run.name for run in trackio.Api().runs("mrq")}


def put_aside():
    """Renames what W&B has recorded; it would mix up a run with one of the same id that began in the same second."""
    for path in Path(os.environ["WANDB_DIR"]).glob("wandb/offline-run-*"):
        path.rename(path.with_name(f"earlier-{time_ns()}-{path.name}"))


def flat(document, before=""):
    """Returns a document as dotted names and text."""
    found = {}
    for name, value in document.items():
        if isinstance(value, dict):
            found |= flat(value, f"{before}{name}.")
        else:
            found[before + name] = value if isinstance(value, str) else json.dumps(value)
    return found


def _wandb(run):
    from wandb.proto.wandb_internal_pb2 import Record as Message

    values, config, checkpoint, films = defaultdict(list), {}, "", []
    files = sorted(Path(os.environ["WANDB_DIR"]).glob(f"wandb/*-{run}/run-{run}.wandb"))

    def messages(file):
        return [Message.FromString(content) for content in _messages(file.read_bytes())]

    assert soon(lambda: any(message.HasField("exit") for message in messages(files[-1])))
    for file in files:
        for message in messages(file):
            for item in (*message.run.config.update, *message.config.update):
                config[".".join(item.nested_key) or item.key] = json.loads(item.value_json)
            for item in message.summary.update:
                if (item.key or item.nested_key[0]) == "checkpoint":
                    checkpoint = json.loads(item.value_json)
            row = {".".join(i.nested_key) or i.key: json.loads(i.value_json) for i in message.history.item}
            for name in row:
                if name != "step" and not name.startswith(("_", "film.")):
                    values[name].append((row["step"], row[name]))
            if "film.caption" in row:
                films.append(row["film.caption"])
    return Record(values, flat(config), checkpoint, films)


def _messages(content):
    """Returns the records of a file that may still be written."""
    at, message = HEADER, b""
    while at + HEADER <= len(content):
        left = BLOCK - at % BLOCK
        if left < HEADER:
            at += left
            continue
        length, kind = struct.unpack_from("<HB", content, at + 4)
        message += content[at + HEADER : at + HEADER + length]
        at += HEADER + length
        if kind in (1, 4) and at <= len(content):  # a whole record, or the last part of one
            yield message
            message = b""


def _mlflow(run):
    from mlflow import MlflowClient

    client = MlflowClient()
    data = client.get_run(run).data
    values = {
        name: [(metric.step, metric.value) for metric in client.get_metric_history(run, name)] for name in data.metrics
    }
    films = [file.path.removeprefix("films/") for file in client.list_artifacts(run, "films")]
    return Record(values, dict(data.params), data.tags.get("checkpoint", ""), films)


def _trackio(run):
    import trackio
    from trackio.sqlite_storage import SQLiteStorage

    values, checkpoint, films = defaultdict(list), "", []
    for row in SQLiteStorage.get_logs("mrq", run):
        checkpoint = row.pop("checkpoint", checkpoint)
        if "film" in row:
            films.append(row.pop("film")["caption"])
        for name in row.keys() - {"step", "timestamp"}:
            values[name].append((row["step"], row[name]))
    configs = {each.name: each.config for each in trackio.Api().runs("mrq")}
    return Record(values, flat(configs.get(run) or {}), checkpoint, films)
