"""A system call filter for the worker: what no ordinary program needs and every escape from limits does.

Closed: new namespaces (inside one a program could mount file systems of unlimited size), mounting, tracing, kernel
keys, bpf, io_uring, System V and POSIX shared memory and queues (memory no limit counts), memfd, and every socket but a
pair: a Unix one reaches services of the machine, some at addresses that no file permission guards. A second fence
behind namespaces and users, not a replacement; installed where the system call numbers below are known. Source: the
kernel's ``Documentation/userspace-api/seccomp_filter.rst`` and system call tables.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data, little-endian

_NEW_NAMESPACES = 0x7E020000
_FOREIGN_ABI = 0x40000000  # x32 calls on x86-64 carry this bit and would slip past the table

# shmget semget msgget mq_open ptrace mount umount2 pivot_root chroot unshare setns add_key request_key keyctl bpf
# userfaultfd perf_event_open memfd_create process_vm_readv process_vm_writev open_by_handle_at
_DENIED = {
    "x86_64": (29, 64, 68, 240, 101, 165, 166, 155, 161, 272, 308, 248, 249, 250, 321, 323, 298, 319, 310, 311, 304),
    "aarch64": (194, 190, 186, 180, 117, 40, 39, 41, 51, 97, 268, 217, 218, 219, 280, 282, 241, 279, 270, 271, 265),
}
_SOCKET_CONNECT = {"x86_64": (41, 42), "aarch64": (198, 203)}
# io_uring (three calls), the new mount interface (six), memfd_secret: one number everywhere
_DENIED_EVERYWHERE = (425, 426, 427, 428, 429, 430, 431, 432, 442, 447)
_CLONE3 = 435
_AUDIT_CLONE = {"x86_64": (0xC000003E, 56), "aarch64": (0xC00000B7, 220)}

_PR_SET_SECCOMP, _MODE_FILTER = 22, 2


def supported() -> bool:
    """Whether the numbers of this machine's system calls are known."""
    return os.uname().machine in _AUDIT_CLONE


def install() -> None:
    """Filter this process and its children from now on; ``no_new_privs`` has to be set already.

    Raises:
        OSError: if the kernel refuses.
    """
    filters = b"".join(struct.pack("HBBI", *line) for line in _program(os.uname().machine))
    buffer = ctypes.create_string_buffer(filters, len(filters))
    program = struct.pack("HxxxxxxP", len(filters) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_SECCOMP, ctypes.c_ulong(_MODE_FILTER), ctypes.c_char_p(program), 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl(SECCOMP): {os.strerror(number)}")


def _program(machine: str) -> list[tuple[int, int, int, int]]:
    """The filter as (operation, jump if true, jump if false, operand); a jump counts the lines it skips."""
    architecture, clone = _AUDIT_CLONE[machine]
    deny = _ERRNO | errno.EPERM
    lines = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _FOREIGN_ABI),
        (_RETURN, 0, 0, deny),
        (_EQUAL, 0, 1, _CLONE3),  # its flags lie in memory, out of a filter's reach; callers fall back to clone
        (_RETURN, 0, 0, _ERRNO | errno.ENOSYS),
    ]
    for number in (*_DENIED[machine], *_SOCKET_CONNECT[machine], *_DENIED_EVERYWHERE):
        lines += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, deny)]
    lines += [
        (_EQUAL, 0, 3, clone),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_ANY_BIT, 0, 1, _NEW_NAMESPACES),
        (_RETURN, 0, 0, deny),
    ]
    return [*lines, (_RETURN, 0, 0, _ALLOW)]
