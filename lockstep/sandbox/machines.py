"""Machines that exist in every sandbox by name alone: each is this one.

A check of several machines draws its names from here. Scripts wait until another machine can be reached, with bash's
/dev/tcp or a line of Python, which look names up where no stand-in can answer.
"""

from __future__ import annotations

from itertools import product

STEMS = ("adkt", "bnrv", "cfmz", "dphw", "gsek", "hvar", "kmuz", "nbec", "pfyd", "rgat", "tkwe", "vzws")
NUMBERS = range(100, 200)


def addresses() -> dict[str, str]:
    """The name of each machine by its address, which no other name has."""
    names = (f"{stem}{number}" for stem, number in product(STEMS, NUMBERS))
    return {f"127.1.{place // 250}.{place % 250 + 1}": name for place, name in enumerate(names)}


def hosts_file() -> str:
    """The lines of /etc/hosts for all of them."""
    return "".join(f"{address} {name}\n" for address, name in addresses().items())
