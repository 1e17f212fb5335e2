"""Puts the checkout's root on the import path, so that `pytest` alone finds fixtures/ and graders/."""
