"""More than one machine: what `--cluster` names becomes a pool. Nothing of Dask is loaded without that option."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.classroom.jobqueue import CLUSTERS, JobQueue, Jobs, read_jobs
from lockstep.classroom.task import Setup
from lockstep.grading import CouldNotGrade
from lockstep.text import safe_line

if TYPE_CHECKING:
    from distributed import Client

    from lockstep.classroom.daskpool import DaskPool

CONNECT_SECONDS = 15
"""How long a scheduler may take to let us in."""

WAIT_MINUTES = 1.0
"""How long no worker may be there, unless `wait_minutes` says otherwise; jobs of a queue take longer to start."""

QUEUE_WAIT_MINUTES = 60.0


def open_pool(
    where: str, config: Path | None, setup: Setup, timeout: float, folder: Path, say: Callable[[str], None]
) -> DaskPool:
    """A pool on other machines, as `--cluster` names them; a hand-in may take `timeout` seconds there.

    Keys and logs of jobs lie in `folder`. `say` hears sentences about nodes while the class is graded.
    Raises CouldNotGrade with a sentence.
    """
    if where not in CLUSTERS and not where.startswith(("tcp://", "tls://")):
        raise CouldNotGrade(
            f"--cluster takes the address of a Dask scheduler, tcp://host:8786 or tls://host:8786, or one of "
            f"{', '.join(CLUSTERS)}; not {safe_line(where)}"
        )
    jobs = read_jobs(config)
    wanted = {"distributed", *({"dask_jobqueue", "cryptography"} if where in CLUSTERS else ())}
    if any(importlib.util.find_spec(name) is None for name in wanted):
        raise CouldNotGrade(
            "--cluster needs packages that are not installed: run `pip install 'lockstep[cluster]'`, "
            "or in a checkout `pip install -e '.[cluster]'`"
        )
    from lockstep.classroom.daskpool import DaskPool

    _quiet()
    with contextlib.ExitStack() as stack:
        queued = (
            stack.enter_context(JobQueue(where, jobs, Path(jobs.folder) if jobs.folder else folder))
            if where in CLUSTERS
            else None
        )
        client = stack.enter_context(_connected(where, jobs, queued))
        minutes = jobs.wait_minutes or (QUEUE_WAIT_MINUTES if queued else WAIT_MINUTES)
        pool = DaskPool(where, client, queued, setup, timeout, 60 * minutes, say)
        pool.keep(stack.pop_all())
        return pool


def _connected(where: str, jobs: Jobs, queued: JobQueue | None) -> Client:
    from distributed import Client
    from distributed.security import Security

    if queued is not None:
        return Client(queued.cluster, set_as_default=False)
    files = {
        "tls_ca_file": jobs.tls_ca_file,
        "tls_client_cert": jobs.tls_cert,
        "tls_client_key": jobs.tls_key,
    }
    # What is not given here, Dask's own settings may say.
    security = Security(**{name: path for name, path in files.items() if path})
    try:
        return Client(where, security=security, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise CouldNotGrade(f"no Dask scheduler answers at {where}: {safe_line(str(error))}") from error


def _quiet() -> None:
    """Keep Dask's own log, tracebacks and all, off the terminal for good: what matters becomes a sentence."""
    for name in ("distributed", "distributed.client", "tornado", "tornado.application"):
        logging.getLogger(name).handlers[:] = [logging.NullHandler()]
        logging.getLogger(name).propagate = False
