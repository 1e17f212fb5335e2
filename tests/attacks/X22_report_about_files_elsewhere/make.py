import json
from pathlib import Path

REFERENCE = Path(__file__).resolve().parents[3] / "reference" / "reports" / "loader.json"
ELSEWHERE = ["/etc/shadow", "/etc/passwd", "../../../../etc/passwd", "reports/../../x", "//proc/self/environ", "~/.netrc"]


def make(folder: Path) -> None:
    report = json.loads(REFERENCE.read_text())
    report["attempt"]["argv"] = ["/etc/passwd", "--report", "/etc/passwd"]
    report["logs"] = [{"path": path, "kind": kind} for path in ELSEWHERE for kind in ("tensorboard", "wandb", "lightning_csv")]
    report["plot"]["file"] = "../../../../etc/passwd"
    for run in report["runs"]:
        run["wall_s"] = "0.000001"
    (folder / "reports").mkdir()
    (folder / "reports" / "loader.json").write_text(json.dumps(report))
    (folder / "reports" / "loader.png").write_bytes(b"\x89PNG\r\n\x1a\n../../../../etc/passwd")
