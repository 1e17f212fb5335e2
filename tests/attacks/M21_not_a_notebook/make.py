import json
from pathlib import Path


def make(folder: Path) -> Path:
    path = folder / "lfw_dataset.ipynb"
    path.write_text(json.dumps({"nbformat": 99, "cells": [{"cell_type": "code", "source": 42}]}))
    return path
