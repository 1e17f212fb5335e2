from pathlib import Path


def make(folder: Path) -> None:
    lines = ["a0: &a0 [" + ", ".join(["lol"] * 9) + "]"]
    lines += [f"a{n}: &a{n} [" + ", ".join([f"*a{n - 1}"] * 9) + "]" for n in range(1, 9)]
    (folder / "launch").mkdir()
    (folder / "launch" / "pytorchjob.yaml").write_text("\n".join(lines) + "\nkind: PyTorchJob\n")
