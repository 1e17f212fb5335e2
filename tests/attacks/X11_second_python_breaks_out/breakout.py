import ctypes
import fcntl
import os
import signal
import socket
import stat

libc = ctypes.CDLL(None, use_errno=True)
found = []
for name in os.listdir("/proc/self/fd"):
    if int(name) > 2:
        try:
            mode = os.fstat(int(name)).st_mode
        except OSError:
            continue
        if stat.S_ISSOCK(mode) or stat.S_ISFIFO(mode):
            found.append(name)
# One pipe is there to say where this process stands, and for nothing else.
if len(found) == 1 and fcntl.fcntl(int(found[0]), fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY:
    found.clear()
for pid in sorted({1, os.getppid(), *map(int, filter(str.isdigit, os.listdir("/proc")))} - {os.getpid()}):
    if b"breakout.py" in open(f"/proc/{pid}/cmdline", "rb").read():
        continue  # the command that this process stands for: started by the same code, and no more than it
    for name in ("environ", "mem", "maps", "fd", "root/.", "cwd/.", "ns/net", "ns/mnt"):
        path = f"/proc/{pid}/{name}"
        try:
            os.listdir(path) if os.path.isdir(path) else open(path, "r+b").read(1)
            found.append(path)
        except OSError:
            pass
    if libc.ptrace(16, pid, 0, 0) == 0:
        found.append(f"traced {pid}")
for flag in (0x10000000, 0x20000000, 0x20000, 0x40000000):
    if libc.unshare(flag) == 0:
        found.append(f"left {flag}")
for pid in (0, 1):
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGPIPE):
        if pid:
            os.kill(pid, number)
# Whoever asks the supervisor for a python without being a stand-in.
for path in (b"/proc/1/environ", b"/opt/probes/ddp_train/nets.py", b"\xff", b"x" * 4000, b""):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as end:
        end.connect("/run/warm")
        end.send(path)
        end.send(b"9999999999999999999999")
if found:
    print(found)
