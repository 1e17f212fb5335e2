"""Machines that exist in every sandbox by name alone: each is this one.

A check of several machines draws its names from here. Scripts wait until another machine can be reached, with bash's
/dev/tcp or a line of Python, which look names up where no stand-in can answer.
"""

from __future__ import annotations

from itertools import product

STEMS = ("adkt", "bnrv", "cfmz", "dphw", "gsek", "hvar", "kmuz", "nbec", "pfyd", "rgat", "tkwe", "vzws")
NUMBERS = range(100, 200)
# By the address; a script that looks a machine's name up is given one of these, all of which are this machine's.
_NAMES = {
    f"127.1.{place // 250}.{place % 250 + 1}": f"{stem}{number}"
    for place, (stem, number) in enumerate(product(STEMS, NUMBERS))
}


def machine_at(host: str) -> str:
    """The name of the machine at an address, which no other name has; any other text as it is."""
    return _NAMES.get(host, host)


def hosts_file() -> str:
    """The lines of /etc/hosts for all of them."""
    return "".join(f"{address} {name}\n" for address, name in _NAMES.items())
