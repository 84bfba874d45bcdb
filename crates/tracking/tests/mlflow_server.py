"""A real MLflow server on loopback: `mlflow_server.py FOLDER PORT` says `ready`, and ends when its standard input does."""

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

folder, port = Path(sys.argv[1]), sys.argv[2]
command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", port, "--workers", "1"]
command += ["--backend-store-uri", f"sqlite:///{folder / 'runs.db'}", "--artifacts-destination", str(folder / "files")]
with open(folder / "server.log", "ab") as log:
    server = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
try:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    until = time.monotonic() + 120
    while True:
        try:
            opener.open(f"http://127.0.0.1:{port}/health", timeout=5).close()
            break
        except (urllib.error.URLError, OSError):
            if server.poll() is not None or time.monotonic() > until:
                sys.exit((folder / "server.log").read_text())
            time.sleep(0.2)
    print("ready", flush=True)
    sys.stdin.read()
finally:
    os.killpg(server.pid, signal.SIGKILL)
    server.wait()
