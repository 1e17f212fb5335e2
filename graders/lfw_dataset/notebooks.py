"""Whether a script may have been a notebook, where figures show themselves."""

from __future__ import annotations

import re

from lockstep.submission import Submission

SCRIPT = "lfw_dataset.py"
_MARKS = re.compile(rb"ipython|ipynb|# In ?\[|# ?%%|matplotlib inline", re.IGNORECASE)


def may_be_a_notebook(submission: Submission) -> bool:
    """Whether the script is a notebook, was made from one, has cells, or names one of the submission's."""
    source = submission.files.get(SCRIPT, b"")
    others = (path.removesuffix(".py").encode() for path in submission.notebooks)
    return (
        SCRIPT in submission.notebooks
        or _MARKS.search(source) is not None
        or any(name in source for name in others)
    )
