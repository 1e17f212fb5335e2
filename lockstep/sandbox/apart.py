"""Ranks apart: each has processes, folders and shared memory of its own, and shares with the others the network alone.

What one rank knows then reaches another only over the loopback, whose bytes are counted outside.
"""

from __future__ import annotations

import os
import select
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn, cast

from lockstep.sandbox import channel, confine
from lockstep.sandbox.job import Job
from lockstep.wire import Json


def run(job: Job, alone: Callable[[Job], None]) -> None:
    """Have `alone` run every rank in namespaces of its own, and pass on what is said until the run is over.

    This process has number 1 in its namespace, as the first of each rank's will have. Packages that tell by its number
    that a process was forked would think that one is this one (filelock 3.32 then lets it fork no more), so that it is
    another process that forks them.
    """
    child = os.fork()
    if child == 0:
        try:
            _run(job, alone)
        except BaseException as error:
            channel.send_fault(job.status, error)
        finally:
            os._exit(0)
    confine.only_keep({0, 1, 2})
    os.waitpid(child, 0)


def _run(job: Job, alone: Callable[[Job], None]) -> None:
    ends: list[socket.socket] = []
    own = confine.pid_namespace()
    for number, pipes in job.ranks.items():
        ours, theirs = channel.pair()
        confine.new_pids_for_children()
        if os.fork() == 0:
            confine.only_keep({0, 1, 2, theirs.fileno(), job.files_fd, *pipes.all()})
            _become_supervisor(replace(job, status=theirs, ranks={number: pipes}), number, alone)
        confine.children_join(own)
        theirs.close()
        ends.append(ours)
    os.close(own)
    for pipes in job.ranks.values():
        for fd in pipes.all():
            os.close(fd)
    _pass_on(job.status, ends)


def _become_supervisor(job: Job, number: int, alone: Callable[[Job], None]) -> NoReturn:
    """In the fork, which is the first process of its namespace: what its rank starts ends with it."""
    try:
        # Each takes a number: as on one machine, no two ranks are processes of the same one.
        for _ in range(number):
            thread = threading.Thread(target=int)
            thread.start()
            thread.join()
            confine.until_gone(cast(int, thread.native_id))
        confine.own_mounts()
        confine.own_abstract_sockets()
        alone(job)
    except BaseException as error:
        channel.send_fault(job.status, error)
    finally:
        os._exit(0)


def _pass_on(outside: socket.socket, ends: list[socket.socket]) -> None:
    """Between the trusted side and the supervisors, until that side says so or one of them is gone."""
    answers: list[dict[str, Json]] = []
    while True:
        readable, _, _ = select.select([outside, *ends], [], [])
        for end in readable:
            message = channel.receive(end)
            if message is None:
                # Where a supervisor was lost, as when memory ran out, the run is: with this process it all ends.
                return
            if end is outside:
                answers = []
                for other in ends:
                    channel.send(other, message.fields)
            elif message.fields["op"] in ("states", "report"):
                answers.append(message.fields)
                if len(answers) == len(ends):
                    channel.send(outside, _together(answers))
            else:
                channel.send(outside, message.fields)


def _together(answers: list[dict[str, Json]]) -> dict[str, Json]:
    """What all supervisors answered to one question, as one answer."""
    if answers[0]["op"] == "report":
        return {"op": "report", "left": sum(cast(int, answer["left"]) for answer in answers)}
    states: dict[str, Json] = {}
    for answer in answers:
        states |= cast(dict[str, Json], answer["states"])
    return {"op": "states", "states": states}
