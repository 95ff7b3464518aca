"""The few Linux system calls isolation needs that Python 3.11 does not offer, through libc.

Numbers and flags are those of the kernel's headers (``linux/sched.h``, ``linux/mount.h``, ``linux/prctl.h``); each
function raises ``OSError`` with the call's name, so that a refused isolation says which step was refused.
"""

from __future__ import annotations

import ctypes
import os

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_NOATIME = 0x400
MS_NODIRATIME = 0x800
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MS_RELATIME = 0x200000
MNT_DETACH = 0x2

_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
_CAPABILITY_VERSION_3 = 0x20080522
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "ppc64le": 203, "riscv64": 41, "s390x": 217}


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int, call: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Leave the shared namespaces named by ``flags``."""
    _check(_libc().unshare(flags), "unshare")


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """Mount ``source`` (or a file system of a ``kind``) on ``target``."""
    arguments = [text.encode() or None for text in (source, target, kind)]
    call = _libc().mount(*arguments, ctypes.c_ulong(flags), options.encode() or None)
    _check(call, f"mount {kind or source} on {target}")


def bind_read_only(source: str, target: str) -> None:
    """Show ``source`` at ``target``, read-only and without set-uid programs.

    The flags the source's mount already carries are repeated: inside a user namespace they are locked, and a remount
    that forgets one of them is refused.
    """
    mount(source, target, flags=MS_BIND | MS_REC)
    carried = os.statvfs(target).f_flag
    kept = 0
    for flag, bit in ((os.ST_NODEV, MS_NODEV), (os.ST_NOEXEC, MS_NOEXEC), (os.ST_NOATIME, MS_NOATIME)):
        kept |= bit if carried & flag else 0
    kept |= MS_NODIRATIME if carried & os.ST_NODIRATIME else 0
    kept |= MS_RELATIME if carried & os.ST_RELATIME else 0
    mount("", target, flags=MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | kept)


def pivot_root(new_root: str) -> None:
    """Make ``new_root`` the root directory and let go of the old one entirely."""
    os.chdir(new_root)
    number = _PIVOT_ROOT.get(os.uname().machine)
    if number is None:
        raise OSError(f"pivot_root: no system call number known for {os.uname().machine}")
    _check(_libc().syscall(ctypes.c_long(number), b".", b"."), "pivot_root")
    _check(_libc().umount2(b".", MNT_DETACH), "umount2")
    os.chdir("/")


def forbid_inspection() -> None:
    """Refuse ptrace and reads of this process's memory by processes of the same user."""
    _check(_libc().prctl(_PR_SET_DUMPABLE, ctypes.c_ulong(0), 0, 0, 0), "prctl(DUMPABLE)")


def drop_privileges() -> None:
    """Give up every capability, and the chance to regain one by executing a program."""
    libc = _libc()
    libc.prctl(_PR_CAP_AMBIENT, ctypes.c_ulong(_PR_CAP_AMBIENT_CLEAR_ALL), 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    _check(libc.capset(header, (ctypes.c_uint32 * 6)()), "capset")
    _check(libc.prctl(_PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), 0, 0, 0), "prctl(NO_NEW_PRIVS)")


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, so that none is lost from sight."""
    _check(_libc().prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), 0, 0, 0), "prctl(CHILD_SUBREAPER)")
