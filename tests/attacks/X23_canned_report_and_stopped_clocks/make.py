import hashlib
import json
from pathlib import Path

REFERENCE = Path(__file__).resolve().parents[3] / "reference" / "reports" / "loader.json"
SCRIPT = """
import json
import os
import sys
import time

READY = {report!r}
time.sleep = lambda _: None
ticks = iter(range(10**9))
time.perf_counter = time.monotonic = lambda: next(ticks) * 0.01
report = json.loads(READY)
shift = time.time() - report["runs"][-1]["t_end"]
for run in report["runs"]:
    run["t_start"] += shift
    run["t_end"] += shift
os.makedirs("reports", exist_ok=True)
with open(sys.argv[sys.argv.index("-report") + 1], "w") as file:
    json.dump(report, file)
"""


def make(folder: Path) -> None:
    report = json.loads(REFERENCE.read_text())
    script = SCRIPT.format(report=json.dumps(report))
    report["attempt"]["code_sha256"] = hashlib.sha256(script.encode()).hexdigest()
    (folder / "lfw_dataset.py").write_text(script)
    (folder / "reports").mkdir()
    (folder / "reports" / "loader.json").write_text(json.dumps(report))
