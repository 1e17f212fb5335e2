from pathlib import Path


def make(folder: Path) -> None:
    (folder / "launch").mkdir()
    (folder / "launch" / "azure_job.yml").write_text("[" * 100_000 + "\n")
