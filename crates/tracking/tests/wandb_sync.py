"""What `wandb sync` sends of an offline run: `wandb_sync.py FOLDER` prints it as JSON. It is sent to a server of ours on loopback, which
answers as W&B's would and keeps what it gets."""

import gzip
import json
import os
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path

sent = {"config": {}, "name": None, "rows": {}, "summary": {}, "exit_code": None, "files": {}, "lines": []}


def graphql(call):
    """The answers to the few questions that are asked."""
    question, given = call["query"], call.get("variables", {})
    if "upsertBucket" in question:
        sent["config"] = {key: value["value"] for key, value in json.loads(given["config"]).items() if key != "_wandb"}
        sent["name"] = given["displayName"] or sent["name"]
        project = {"id": "1", "name": given["project"], "entity": {"id": "1", "name": "someone"}}
        bucket = {"id": "1", "name": given["name"], "displayName": given["displayName"], "description": "", "config": "{}"}
        bucket |= {"sweepName": None, "historyLineCount": 0, "project": project}
        return {"upsertBucket": {"bucket": bucket, "inserted": True}}
    if "createRunFiles" in question:
        files = [{"name": name, "uploadUrl": f"{address}/upload/{name}"} for name in given["files"]]
        return {"createRunFiles": {"runID": "1", "uploadHeaders": [], "files": files}}
    if "serverInfo" in question:
        return {"serverInfo": {"features": []}}
    return {}


def stream(sending):
    """A part of the run's stream: lines of files at their places, and the end."""
    for name, part in sending.get("files", {}).items():
        for place, line in enumerate(part["content"], part["offset"]):
            if name == "wandb-history.jsonl":
                # What is sent twice stands at the same place; a step that is sent twice does not.
                sent["rows"][place] = json.loads(line)
            elif name == "wandb-summary.json":
                sent["summary"] = json.loads(line)
            elif name == "output.log":
                sent["lines"].append(line)
    if sending.get("complete"):
        sent["exit_code"] = sending["exitcode"]


class Server(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def contents(self):
        contents = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return gzip.decompress(contents) if self.headers.get("Content-Encoding") == "gzip" else contents

    def answer(self, value):
        text = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_POST(self):
        sending = json.loads(self.contents() or b"{}")
        if self.path.endswith("/graphql"):
            self.answer({"data": graphql(sending)})
        else:
            if self.path.endswith("/file_stream"):
                stream(sending)
            self.answer({})

    def do_PUT(self):
        sent["files"][self.path.removeprefix("/upload/")] = len(self.contents())
        self.answer({})

    def do_GET(self):
        self.answer({})

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
address = f"http://127.0.0.1:{server.server_port}"
threading.Thread(target=server.serve_forever, daemon=True).start()
with tempfile.TemporaryDirectory() as home:
    kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy") and not name.startswith("WANDB")}
    own = {"HOME": home, "WANDB_BASE_URL": address, "WANDB_API_KEY": "0" * 40, "WANDB_ERROR_REPORTING": "false"}
    # A run that goes on after it was sent is sent again, whole.
    command = [Path(sys.executable).with_name("wandb"), "sync", "--include-synced", Path(sys.argv[1]).absolute()]
    # It leaves logs in the folder where it runs.
    synced = subprocess.run(command, cwd=home, env=kept | own, capture_output=True, text=True, timeout=120)
sent["rows"] = [row for _, row in sorted(sent["rows"].items())]
print(json.dumps({"version": version("wandb"), "code": synced.returncode, "said": synced.stderr, "sent": sent}))
