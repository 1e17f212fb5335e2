"""Ranks that are apart share a network, and nothing else: no file, no process, no memory."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from pathlib import Path

from lockstep.sandbox.box import Box
from lockstep.sandbox.limits import MIB, Limits
from tests.sandboxed import PATIENT, keeps_abstract_sockets_apart, message, processes_of, run, traces, verdict

EXCHANGE = """
    import os, time, torch, torch.distributed as dist

    def main(inputs):
        dist.init_process_group("gloo")
        seen = []
        for folder in ("/work", "/tmp", "/dev/shm", "/run"):
            if os.access(folder, os.W_OK):
                open(f"{folder}/from-{inputs.rank}", "w").write("seen")
        dist.barrier()
        for folder in ("/work", "/tmp", "/dev/shm", "/run"):
            seen += [f"{folder}/{name}" for name in os.listdir(folder) if name == f"from-{1 - inputs.rank}"]
        dist.barrier()
        return " ".join(seen)
"""


def test_what_one_rank_writes_no_other_sees(box: Box) -> None:
    outcome = run(box, EXCHANGE, ranks=2, call="give")
    assert [rank.values["seen"] for rank in outcome.ranks] == ["", ""]


def test_ranks_with_shared_files_see_each_other_s(box: Box) -> None:
    outcome = run(box, EXCHANGE, ranks=2, call="give", shared_files=True)
    for number, rank in enumerate(outcome.ranks):
        assert {f"/work/from-{1 - number}", f"/tmp/from-{1 - number}"} <= set(
            str(rank.values["seen"]).split()
        )


def test_no_socket_leads_past_the_loopback(box: Box) -> None:
    """Names of Unix sockets that lie in no folder, and netlink, belong to the network, which the ranks share."""
    source = """
        import socket, torch.distributed as dist
        def main(inputs):
            dist.init_process_group("gloo")
            own = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            own.bind(f"\\0rank-{inputs.rank}")
            dist.barrier()
            reached = []
            for number in range(inputs.world_size):
                try:
                    own.sendto(b"x", f"\\0rank-{number}")
                    reached.append(number)
                except PermissionError:
                    pass
            for protocol in range(1, 32):
                try:
                    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)
                    reached.append(f"netlink {protocol}")
                except PermissionError:
                    pass
            dist.barrier()
            return " ".join(map(str, reached))
    """
    outcome = run(box, source, ranks=2, call="give")
    apart = keeps_abstract_sockets_apart()
    assert [rank.values["seen"] for rank in outcome.ranks] == (["0", "1"] if apart else ["0 1", "0 1"])


def test_terminals_are_each_rank_s_own(box: Box) -> None:
    source = """
        import os, torch.distributed as dist
        def main(inputs):
            dist.init_process_group("gloo")
            master, own = os.openpty()
            dist.barrier()
            seen = sorted(os.listdir("/dev/pts"))
            os.write(own, b"x")
            dist.barrier()
            return f"{os.ttyname(own)} {os.read(master, 9)} {seen}"
    """
    outcome = run(box, source, ranks=2, call="give")
    assert [rank.values["seen"] for rank in outcome.ranks] == ["/dev/pts/0 b'x' ['0', 'ptmx']"] * 2


def test_every_rank_finds_the_submission_and_the_data(box: Box) -> None:
    source = """
        def main(inputs):
            written = []
            for path in ("/data/set/one", "student.py"):
                assert open(path).read()
                try:
                    open(path, "a").close()
                    written.append(path)
                except OSError:
                    pass
            return " ".join([*written, open("/data/set/one").read()])
    """
    outcome = run(box, source, ranks=3, call="give", data={"set": {"one": b"the same"}})
    assert [rank.values["seen"] for rank in outcome.ranks] == ["student.py the same"] * 3


def test_a_rank_sees_no_process_of_another(box: Box) -> None:
    source = """
        import os, torch.distributed as dist
        def main(inputs):
            dist.init_process_group("gloo")
            dist.barrier()
            others = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
            others.remove(os.getpid())
            dist.barrier()
            return str(others)
    """
    outcome = run(box, source, ranks=2, call="give")
    # What it sees is the first process, which supervises it.
    assert [rank.values["seen"] for rank in outcome.ranks] == ["[1]", "[1]"]


def test_a_rank_cannot_end_another(box: Box) -> None:
    source = """
        import os, signal, time
        def main(inputs):
            if inputs.rank == 0:
                for pid in (-1, 1, *range(2, 400)):
                    if pid != os.getpid():
                        try:
                            os.kill(pid, signal.SIGKILL)
                        except ProcessLookupError:
                            pass
            return "alive"
    """
    outcome = run(box, source, ranks=2, call="give")
    assert [rank.values["seen"] for rank in outcome.ranks] == ["alive", "alive"]


def test_memory_is_counted_for_all_ranks_together(box: Box) -> None:
    source = """
        import time
        def main(inputs):
            held = bytearray(220 << 20)
            time.sleep(60)
    """
    limits = Limits(seconds=30, memory=512 * MIB)
    assert run(box, source, ranks=4, call="give", limits=limits).limit == "memory"


def test_a_rank_that_waits_in_vain_is_named(box: Box) -> None:
    source = """
        import time, torch, torch.distributed as dist
        def main(inputs):
            dist.init_process_group("gloo")
            if inputs.rank == 0:
                dist.all_reduce(torch.ones(1))
            else:
                time.sleep(600)
    """
    outcome = run(box, source, ranks=2, call="give", limits=PATIENT)
    told = message(outcome, PATIENT)
    assert "rank 0" in told.lower()
    assert "all_reduce" in told


def test_a_stopped_rank_is_named(box: Box) -> None:
    source = """
        import os, signal, time
        def main(inputs):
            if inputs.rank == 1:
                os.kill(os.getpid(), signal.SIGSTOP)
            time.sleep(600)
    """
    outcome = run(box, source, ranks=2, call="give", limits=PATIENT)
    assert outcome.timed_out
    assert "stopped" in message(outcome, PATIENT).lower()


def test_processes_left_by_any_rank_are_counted(box: Box) -> None:
    source = """
        import subprocess
        def main(inputs):
            for _ in range(inputs.rank):
                subprocess.Popen(["sleep", "600"], start_new_session=True)
    """
    before = traces(box)
    assert run(box, source, ranks=3, call="give", counts_left=True).left_running == 3
    assert traces(box) == before


def test_each_rank_starts_its_own_python(box: Box) -> None:
    source = """
        import os, subprocess, sys
        def main(inputs):
            code = f"import os, torch; open('own', 'w').write('{inputs.rank}'); print(os.getppid() > 0)"
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
            return done.stdout.strip() + open("own").read()
    """
    outcome = run(box, source, ranks=2, call="give")
    assert [rank.values["seen"] for rank in outcome.ranks] == ["True0", "True1"]


def test_a_fork_is_told_by_its_number(box: Box) -> None:
    """Packages compare the number of their process with the one that they noted (filelock does)."""
    box.settle()
    waits = threading.Thread(
        target=run, args=[box, "def main():\n    while True: pass"], kwargs={"ranks": 2, "limits": Limits(2)}
    )
    waits.start()
    seen: dict[int, tuple[str, str]] = {}
    while waits.is_alive():
        # As first seen: at the end they go to another parent.
        for pid in processes_of(box) - seen.keys():
            with contextlib.suppress(OSError):
                seen[pid] = _number(pid), _number(_parent(pid))
    waits.join()
    # The first process of each rank, and the rank that it forked.
    assert Counter(seen.values())["1", "2"] >= 2
    assert Counter(seen.values())["2", "1"] >= 1
    assert Counter(seen.values())["3", "1"] >= 1
    assert [pid for pid, (own, parent) in seen.items() if own == parent] == []


def test_no_two_ranks_have_one_number(box: Box) -> None:
    """Some make the name of a file, or a seed, of the host and the process."""
    outcome = run(box, "import os\ndef main(): return os.getpid()", ranks=3)
    assert [rank.values["seen"] for rank in outcome.ranks] == [2, 3, 4]


def _number(pid: int) -> str:
    """In the innermost of its namespaces."""
    return _status(pid, "NSpid").split()[-1]


def _parent(pid: int) -> int:
    return int(_status(pid, "PPid"))


def _status(pid: int, name: str) -> str:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line for line in lines if line.startswith(f"{name}:")).partition(":")[2]


def test_a_rank_that_aborts_says_so(box: Box) -> None:
    source = """
        import os
        def main(inputs):
            if inputs.rank == 1:
                os.abort()
    """
    outcome = run(box, source, ranks=2, call="give", limits=PATIENT)
    assert "SIGABRT" in verdict(outcome, PATIENT).feedback.message


def test_nothing_is_left_of_ranks_apart(box: Box) -> None:
    before = traces(box)
    run(box, "import time\ndef main(inputs): time.sleep(600)", ranks=4, call="give", limits=Limits(seconds=1))
    assert traces(box) == before
