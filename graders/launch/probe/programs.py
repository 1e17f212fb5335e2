"""What is put in the place of a cluster's programs: texts that are written into files, and run there."""

# Few and small imports: a job on two nodes starts a dozen of these.
STAND_IN = r"""#!{python} -IS
import _signal, _socket, _thread, marshal, os, sys
end = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
end.connect({socket!r})
end.send(b"stand-in")
answer = end.recv(1 << 20)
end.close()
order = marshal.loads(answer) if answer else {{"status": 1}}
def environment(changes):
    kept = {{name: value for name, value in os.environ.items() if changes.get(name, "") is not None}}
    return {{**kept, **{{name: value for name, value in changes.items() if value is not None}}}}
def started(words, changes, stdin):
    # A path of the cluster's own leads to what has a stand-in here.
    here = os.path.join(os.path.dirname(sys.argv[0]), os.path.basename(words[0]))
    if "/" in words[0] and not os.path.exists(words[0]) and os.path.exists(here):
        words = [here, *words[1:]]
    if isinstance(stdin, str):
        actions = [(os.POSIX_SPAWN_OPEN, 0, stdin, os.O_RDONLY, 0)]
    else:
        actions = [(os.POSIX_SPAWN_DUP2, stdin, 0)] if stdin else []
    try:
        return os.posix_spawnp(words[0], words, environment(changes), file_actions=actions)
    except OSError as error:
        print(words[0] + ": " + error.strerror, file=sys.stderr)
        return None
def feed(ends):
    while data := os.read(0, 1 << 16):
        for end in list(ends):
            try:
                os.write(end, data)
            except OSError:
                ends.remove(end)
    for end in ends:
        os.close(end)
sys.stdout.write(order.get("say", ""))
sys.stdout.flush()
if "become" in order:
    # Python ignores a broken pipe, and what it becomes would too.
    _signal.signal(_signal.SIGPIPE, _signal.SIG_DFL)
    os.execvpe(order["become"][0], order["become"], environment(order.get("changes", {{}})))
tasks = order.get("start", [])
# Of a stdin that is no device each gets a copy.
copied = order.get("copies") and sys.stdin and not os.fstat(0).st_rdev
pipes = [os.pipe() for task in tasks] if copied else []
stdins = [end for end, _ in pipes] or [order.get("stdin")] * len(tasks)
pids = [started(task["words"], task["changes"], stdin) for task, stdin in zip(tasks, stdins)]
for end, _ in pipes:
    os.close(end)
if pipes:
    _thread.start_new_thread(feed, ([end for _, end in pipes],))
ends = [127 if pid is None else abs(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])) for pid in pids]
os._exit(max([order.get("status", 0), *ends]) & 255)
"""

# What a cluster has and this place lacks must not stop a script with `set -e` before it starts anything: files to
# source, folders of one's own, data to copy, limits to lift.
SHELL = r"""
lockstep_source() {{
    if [ ! -e "$1" ]; then case "$1" in /*|*/activate|*conda*) return 0 ;; esac; fi
    builtin source "$@"
}}
source() {{ lockstep_source "$@"; }}
.() {{ lockstep_source "$@"; }}
cd() {{
    case "${{@: -1}}" in
        /*) if [ ! -d "${{@: -1}}" ]; then lockstep-elsewhere "${{@: -1}}"; builtin cd {work!r}; return; fi ;;
    esac
    builtin cd "$@"
}}
ulimit() {{ builtin ulimit "$@" 2>/dev/null || true; }}
for tool in cp mv ln mkdir tar unzip; do
    eval "$tool() {{ command $tool \"\$@\" || true; }}"
done
unset tool
"""

TRAINER = """
import json, os, socket
from datetime import timedelta

import torch
import torch.distributed as dist

end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
end.connect({socket!r})
end.send(json.dumps({{name: os.environ.get(name) for name in {names!r}}}).encode())
number = torch.tensor([int(end.recv(64))])
dist.init_process_group("gloo", timeout=timedelta(seconds={seconds}))
dist.all_reduce(number)
seen = {{"rank": dist.get_rank(), "world_size": dist.get_world_size(), "total": int(number)}}
end.send(json.dumps(seen).encode())
end.recv(64)
dist.barrier()
dist.destroy_process_group()
"""

# Python that may call torchrun's main by itself, and then becomes the stand-in, or that asks for its machine and GPUs.
ON_A_NODE = """
import importlib, os, platform, socket, sys
import torch
from lockstep.sandbox import warm

node, gpus = os.environ.get("HOSTNAME", ""), int(os.environ["EMULATED_GPUS"])
machine = os.uname()
os.uname = lambda: os.uname_result((machine.sysname, node, *machine[2:]))
socket.gethostname = platform.node = lambda: node
# A file, and what goes on to compute, finds the GPUs that are there.
if sys.argv[1:2] == ["-c"] and "device_count" in sys.argv[2]:
    for of in (torch.cuda, torch.accelerator):
        of.device_count, of.is_available = lambda: gpus, lambda: gpus > 0

def stands_in(module):
    def main(args=None):
        sys.stdout.flush()
        words = sys.argv[1:] if args is None else args
        os.execvp("python3", ["python3", "-m", module, *map(str, words)])
    importlib.import_module(module).main = main

def elastic_launch(config, entrypoint):
    def start(*args):
        sys.stdout.flush()
        script = [entrypoint, *map(str, args)] if isinstance(entrypoint, str) else [entrypoint.__code__.co_filename]
        least, most, backend = config.min_nodes, config.max_nodes, config.rdzv_backend
        nodes = most if least == most else f"{least}:{most}"
        words = [f"--nnodes={nodes}", f"--nproc-per-node={config.nproc_per_node}", f"--rdzv-backend={backend}"]
        words += [f"--rdzv-endpoint={config.rdzv_endpoint}"] if config.rdzv_endpoint else []
        words += [f"--rdzv-id={config.run_id}"] if config.run_id else []
        words += [f"--node-rank={config.rdzv_configs['rank']}"] if "rank" in config.rdzv_configs else []
        os.execvp("torchrun", ["torchrun", *words, *["--no-python"] * isinstance(entrypoint, str), *script])
    return start

for module in ("torch.distributed.run", "torch.distributed.launch"):
    stands_in(module)
for module in ("torch.distributed.run", "torch.distributed.launcher.api", "torch.distributed.launcher"):
    importlib.import_module(module).elastic_launch = elastic_launch
warm.execute(sys.argv[1:])
"""
