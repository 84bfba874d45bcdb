"""What MLflow's own client finds on a server: `read_mlflow.py ADDRESS` prints every run as JSON."""

import json
import math
import sys
from importlib.metadata import version

from mlflow import MlflowClient

client = MlflowClient(sys.argv[1])


def plain(value):
    return value if math.isfinite(value) else repr(value)


def history(run, name):
    return [[at.step, plain(at.value), at.timestamp] for at in client.get_metric_history(run.info.run_id, name)]


runs = []
for experiment in client.search_experiments():
    for run in client.search_runs([experiment.experiment_id]):
        runs.append({
            "experiment": experiment.name,
            "id": run.info.run_id,
            "name": run.info.run_name,
            "status": run.info.status,
            "began": run.info.start_time,
            "settings": run.data.params,
            "metrics": {name: history(run, name) for name in run.data.metrics},
            "files": [file.path for file in client.list_artifacts(run.info.run_id, "samples")],
        })
# A number that is sent once more, as after an answer that was lost, is there once.
run, name = client.get_run(runs[0]["id"]), "train/loss"
first = client.get_metric_history(run.info.run_id, name)[0]
client.log_metric(run.info.run_id, name, first.value, first.timestamp, first.step)
runs[0]["again"] = len(history(run, name))
print(json.dumps({"version": version("mlflow"), "runs": runs}))
