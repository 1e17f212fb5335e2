"""Programs that say something of the machines of a job: their names, their addresses, their GPUs."""

from __future__ import annotations

import os
import re
import shutil
import uuid
from collections.abc import Callable, Mapping

from .bench import Bench, Order, Request


def _address(node: int) -> str:
    return f"10.0.0.{node + 1}"


def _of_name(bench: Bench, request: Request) -> str:
    """The address of the host that a command line ends with; a name server may be told in front or behind."""
    names = [
        word for word in request.words[1:] if not word.startswith(("-", "+", "@")) and word not in ("A", "IN")
    ]
    return _address(bench.host_number(names[-1], request.node)) if names else ""


def _scontrol(bench: Bench, request: Request) -> Order:
    hosts, words = bench.cluster.hosts, [word for word in request.words[1:] if not word.startswith("-")]
    what = words[1] if words[:1] == ["show"] and len(words) > 1 else ""
    if what in ("job", "jobs", "jobid"):
        nodes = f"NodeList={','.join(hosts)} BatchHost={hosts[0]} NumNodes={len(hosts)}"
        return {"say": f"JobId={request.environment.get('SLURM_JOB_ID', '1')} JobState=RUNNING\n   {nodes}\n"}
    listed = words[-1] if len(words) > (1 if words[:1] == ["getaddrs"] else 2) else ""
    # The job's own list is written with brackets; names that a script gives otherwise come back as they are.
    named = hosts if not listed or "[" in listed else listed.split(",")
    if what.startswith("hostname"):
        return {"say": "".join(f"{host}\n" for host in named)}
    if what in ("node", "nodes"):
        line = "NodeName={0} Arch=x86_64\n   NodeAddr={1} NodeHostName={0}\n"
    elif words[:1] == ["getaddrs"]:
        line = "{0}: {1}:6818\n"
    else:
        return {}
    addresses = {name: _address(bench.host_number(name, request.node)) for name in named}
    return {"say": "".join(line.format(name, address) for name, address in addresses.items())}


# What `squeue -o` and `sacct -o` may be asked for: the hosts of a job, and the one on which its file runs.
_HOSTS = re.compile(r"%(?:\.?\d+)?N|(?i:nodelist)")
_FIRST = re.compile(r"%(?:\.?\d+)?B|(?i:batchhost)")


def _queue(bench: Bench, request: Request) -> Order:
    """Squeue and sacct, of the job alone."""
    asked, hosts = " ".join(request.words[1:]), bench.cluster.hosts
    found = hosts[:1] if _FIRST.search(asked) else hosts if _HOSTS.search(asked) else []
    has_header = not {"-h", "-n", "--noheader"} & {*request.words}
    return {"say": "NODELIST\n" * has_header + f"{','.join(found)}\n"} if found else {}


def _qstat(bench: Bench, request: Request) -> Order:
    """Of `qstat -f` where the job runs: a host, and a slot of it."""
    return {"say": f"    exec_host = {'+'.join(f'{host}/0' for host in bench.cluster.hosts)}\n"}


def _nodeset(bench: Bench, request: Request) -> Order:
    """ClusterShell's, and python-hostlist's hostlist, which has a line for each host."""
    hosts = bench.cluster.hosts
    if {"-c", "--count"} & {*request.words}:
        return {"say": f"{len(hosts)}\n"}
    between = "\n" if os.path.basename(request.words[0]) == "hostlist" else " "
    return {"say": (between if {"-e", "--expand"} & {*request.words} else ",").join(hosts) + "\n"}


def _hostname(bench: Bench, request: Request) -> Order:
    if any(word in ("-i", "-I", "--ip-address", "--all-ip-addresses") for word in request.words[1:]):
        return {"say": f"{_address(request.node)}\n"}
    return {"say": f"{bench.cluster.hosts[request.node]}\n"}


def _uname(bench: Bench, request: Request) -> Order:
    """With -n another name for hostname; else as it is here."""
    if request.words[1:] in (["-n"], ["--nodename"]):
        return {"say": f"{bench.cluster.hosts[request.node]}\n"}
    return _real(request)


def _getent(bench: Bench, request: Request) -> Order:
    name = request.words[-1]
    return {"say": f"{_address(bench.host_number(name, request.node))}      {name}\n"}


def _dig(bench: Bench, request: Request) -> Order:
    address = _of_name(bench, request)
    return {
        "say": f"{address}\n" if "+short" in request.words else f"{request.words[-1]}. 60 IN A {address}\n"
    }


def _host(bench: Bench, request: Request) -> Order:
    return {"say": f"{request.words[-1]} has address {_of_name(bench, request)}\n"}


def _nslookup(bench: Bench, request: Request) -> Order:
    address = _of_name(bench, request)
    return {
        "say": f"Server:\t\t10.0.0.254\nAddress:\t10.0.0.254#53\n\nName:\t{request.words[-1]}\nAddress: {address}\n"
    }


def _ip(bench: Bench, request: Request) -> Order:
    """The interface that was asked for, eth0 where none was, in one line or in several."""
    words = [word for word in request.words[1:] if not word.startswith("-")]
    address, what = _address(request.node), words[0] if words else ""
    if "link".startswith(what):
        return {"say": "2: eth0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 state UP\n"}
    if "route".startswith(what):
        asked = next((word for word in words[1:] if re.match(r"\d", word)), "default")
        return {"say": f"{asked} via 10.0.0.254 dev eth0 src {address} uid 1000\n"}
    known = ("dev", "show", "list", "up", "scope", "global")
    name = next((word for word in words[1:] if word not in known), "eth0")
    inet = f"inet {address}/24 brd 10.0.0.255 scope global {name}"
    if {"-br", "-brief"} & {*request.words}:
        return {"say": f"{name}             UP             {address}/24\n"}
    if {"-o", "-oneline"} & {*request.words}:
        return {"say": f"2: {name}    {inet}\n"}
    return {"say": f"2: {name}: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 state UP\n    {inet}\n"}


def _ifconfig(bench: Bench, request: Request) -> Order:
    name = next((word for word in request.words[1:] if not word.startswith("-")), "eth0")
    inet = f"inet {_address(request.node)}  netmask 255.255.255.0  broadcast 10.0.0.255"
    return {"say": f"{name}: flags=4163<UP,BROADCAST,RUNNING,MULTICAST>  mtu 1500\n        {inet}\n"}


def _uuidgen(bench: Bench, request: Request) -> Order:
    return {"say": f"{uuid.uuid4()}\n"}


def _nvidia_smi(bench: Bench, request: Request) -> Order:
    """A line for each GPU; what `--query-gpu` asks for stands between commas, below the names of it."""
    gpus, words = range(bench.cluster.gpus), request.words[1:]
    asked = next((word.partition("=")[2] for word in words if word.startswith("--query-gpu=")), "")
    if not asked:
        return {"say": "".join(f"GPU {number}: emulated\n" for number in gpus)}
    fields = [field.strip() for field in asked.split(",")]
    lines = [] if any("noheader" in word for word in words) else [fields]
    for number in gpus:
        known = {"count": len(gpus), "index": number, "uuid": f"GPU-{number}"}
        lines.append([str(known.get(field, "emulated")) for field in fields])
    return {"say": "".join(f"{', '.join(line)}\n" for line in lines)}


# What a person looks for in a log: with `set -o pipefail` a job ends where grep finds none of it.
_OF_A_GPU = {
    "lspci": "0{0}:00.0 3D controller: NVIDIA Corporation emulated\n",
    "gpustat": "[{0}] NVIDIA emulated\n",
    "rocm-smi": "GPU[{0}]\t\t: Card series: AMD emulated, card{0}\n",
    "dcgmi": "| {0} | Name: NVIDIA emulated, GPU |\n",
}
_OF_A_NODE = {
    "lspci": "81:00.0 Infiniband controller: Mellanox Technologies emulated\n",
    "ibstat": "CA 'mlx5_0'\n\tPort 1:\n\t\tState: Active\n\t\tRate: 200\n\t\tLink layer: InfiniBand\n",
    "ibstatus": "Infiniband device 'mlx5_0' port 1 status:\n\tstate: 4: ACTIVE\n\tlink_layer: InfiniBand\n",
    "ibv_devinfo": "hca_id: mlx5_0\n\tport: 1\n\t\tstate: PORT_ACTIVE (4)\n\t\tlink_layer: InfiniBand\n",
    "ibv_devices": "    device\n    mlx5_0\n",
    "ibdev2netdev": "mlx5_0 port 1 ==> ib0 (Up)\n",
    **dict.fromkeys(
        ("lstopo", "lstopo-no-graphics", "hwloc-ls"),
        "Machine\n  NUMANode\n    PCI (3D) NVIDIA\n    OpenFabrics mlx5_0\n",
    ),
}


def _hardware(bench: Bench, request: Request) -> Order:
    """A line for each GPU, and what there is once on a node."""
    name = os.path.basename(request.words[0])
    line = _OF_A_GPU.get(name, "")
    return {
        "say": "".join(line.format(number) for number in range(bench.cluster.gpus)) + _OF_A_NODE.get(name, "")
    }


def _awk(bench: Bench, request: Request) -> Order:
    """An awk by the name of one that need not be here: what they have in common is enough for a list of hosts."""
    return _real(request, "awk")


def _ts(bench: Bench, request: Request) -> Order:
    """Puts the time in front of what it reads; that alone matters here."""
    program = shutil.which("cat")
    return {"become": [program]} if program else {}


def _real(request: Request, otherwise: str = "") -> Order:
    """The program as it is here, on the student's own PATH, without the stand-ins, or another that does as much."""
    program = shutil.which(os.path.basename(request.words[0])) or shutil.which(otherwise)
    return {"become": [program, *request.words[1:]]} if program else {"status": 127}


ANSWERS: Mapping[str, Callable[[Bench, Request], Order]] = {
    "scontrol": _scontrol,
    **dict.fromkeys(("squeue", "sacct"), _queue),
    "qstat": _qstat,
    **dict.fromkeys(("nodeset", "hostlist"), _nodeset),
    "hostname": _hostname,
    "uname": _uname,
    "getent": _getent,
    "dig": _dig,
    "host": _host,
    "nslookup": _nslookup,
    "ip": _ip,
    "ifconfig": _ifconfig,
    "uuidgen": _uuidgen,
    "nvidia-smi": _nvidia_smi,
    **dict.fromkeys((*_OF_A_GPU, *_OF_A_NODE), _hardware),
    **dict.fromkeys(("gawk", "mawk", "nawk"), _awk),
    "ts": _ts,
}
