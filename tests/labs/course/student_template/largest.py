"""What a student writes in this course."""


def largest(values):
    """The largest value of a tensor, as a float."""
    # TODO: find the largest value
    raise NotImplementedError("largest.py is not written yet")
