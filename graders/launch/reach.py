"""Whether processes of different nodes could reach one another. Here all nodes are one machine, on which they can.

A node may be told its address or its network by the machine it is on, and this one is none of a cluster: what was in
effect here counts only where a launch file says it in so many words.

Sources: torch 2.8, `distributed/elastic/rendezvous`: with c10d and etcd the first node hands on its own --local-addr as
MASTER_ADDR, with static rendezvous it is the endpoint's. docs.nvidia.com, NCCL_SOCKET_IFNAME: the interface for IP.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from graders.launch.fault import Fault, Stage
from graders.launch.starts import Endpoint, Start

_ADDRESS = re.compile(r"local[-_]addr[\"',=\s]{1,4}(?:localhost|127\.)", re.IGNORECASE)
_LOOPBACK = r"(?<![{\w])%s[\"'\]]*\s*[=,:]\s*[\"']?=?lo\b"
_LOOKS_AT_INTERFACES = re.compile(
    r"/sys/class/net|(?<![\w-])ip(?:[ \t]+-\S{1,40}){0,8}[ \t]+(?:a|addr|address|l|link|r|route)\b|"
    r"ifconfig|nameindex|net_if_addrs"
)


def reach_fault(where: str, starts: Collection[Start], source: str) -> Fault | None:
    """What would keep the processes of several nodes apart; `source` is the text of the launch files."""
    addresses = {start.local_addr for start in starts}
    # On one node of several it may be right: only the first one's is handed on.
    if _ADDRESS.search(source) and all(
        start.local_addr and Endpoint(start.local_addr, "").is_local and start.backend != "static"
        for start in starts
    ):
        return Fault(
            Stage.MEETING,
            f"{where} gives torchrun --local-addr {min(addresses)}. The first node tells it to all processes as "
            "MASTER_ADDR, and each node takes it for itself: only here, where both nodes are one machine, did they "
            "meet.",
            "Leave --local-addr out: torchrun then takes the name of the node it is on.",
        )
    variable = "GLOO_SOCKET_IFNAME" if _say(starts, "gloo") else "NCCL_SOCKET_IFNAME"
    is_loopback = all(start.places.get(variable, "").lstrip("=") == "lo" for start in starts)
    if is_loopback and re.search(_LOOPBACK % variable, source) and not _LOOKS_AT_INTERFACES.search(source):
        return Fault(
            Stage.MEETING,
            f"{where} sets {variable} to lo, the loopback interface, on which a machine reaches only itself: "
            "only here, where both nodes are one machine, could their processes talk.",
            f"Leave {variable} out, or name the interface of the network between the nodes, for example eth0 or ib0.",
        )
    return None


def _say(starts: Collection[Start], word: str) -> bool:
    return any(word in argument for start in starts for argument in start.arguments)
