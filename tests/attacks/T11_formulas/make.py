from pathlib import Path


def make(folder: Path) -> None:
    (folder / "=cmd|'calc'!A0.py").write_text("raise ValueError('+1+1')\n")
    (folder / "@SUM(1+1)*cmd.csv").write_text('=HYPERLINK("http://example.invalid";"marks")\n')
