from pathlib import Path


def make(folder: Path) -> None:
    total = "+".join(["1"] * 40_000)
    (folder / "lfw_dataset.py").write_text(f"TOTAL = {total}\nDEEP = {'(' * 4000}{')' * 4000}\n")
