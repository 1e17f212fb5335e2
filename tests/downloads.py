"""Downloads of a class for the tests of the intake: what LMSs make, as a folder or as one zip."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

from lockstep.classroom.roster import Roster, roster_of
from lockstep.classroom.sheet import parse_sheet
from tests.intake import zipped

CODE = b"x = 1\n"
ARCHIVE = zipped(("ddp_train.py", CODE))
CLASS = """\
id,name,email,team,canvas id,moodle id,github
m100,Jane Doe,jane.doe@uni.edu,,301,5511,jane-codes
m200,"Müller, Jörg",jm2@uni.edu,,302,5512,joerg
m300,Anna-Maria O'Brien,ob@uni.edu,red,303,5513,annaob
m400,李小龙,lee@uni.edu,red,304,5514,bruce
"""


def class_of(text: str) -> Roster:
    return roster_of(parse_sheet(text, "roster.csv"))


def names_only(text: str = CLASS) -> Roster:
    """The same class on a roster that knows no LMS's numbers."""
    return class_of("\n".join(",".join(line.rsplit(",", 3)[:1]) for line in text.splitlines()))


def folder(root: Path, files: Mapping[str, bytes]) -> Path:
    """A download that has been unpacked."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            path.mkdir(exist_ok=True)
        else:
            path.write_bytes(content)
    return root


def big_zip(path: Path, files: Mapping[str, bytes]) -> Path:
    """A download as it came."""
    path.write_bytes(zipped(*files.items()))
    return path


def download(tmp_path: Path, files: Mapping[str, bytes], packed: bool) -> Path:
    if packed:
        return big_zip(tmp_path / "submissions.zip", files)
    return folder(tmp_path / "submissions", files)


def raw_names(*names: str) -> bytes:
    """A zip whose names are written as an old Windows does: in cp437, without saying so."""
    stand_ins = [f"{'q' * (len(name.encode('cp437')) - 2)}{number:02}" for number, name in enumerate(names)]
    data = zipped(*((stand_in, CODE) for stand_in in stand_ins), method=zipfile.ZIP_STORED)
    for stand_in, name in zip(stand_ins, names, strict=True):
        data = data.replace(stand_in.encode(), name.encode("cp437"))
    assert zipfile.ZipFile(io.BytesIO(data)).testzip() is None
    return data
