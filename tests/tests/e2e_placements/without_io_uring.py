"""Runs a program that may not use io_uring (seccomp(2)): python3 without_io_uring.py PROGRAM [ARGUMENT ...]"""
import ctypes
import os
import struct
import sys

PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2
LOAD_CALL, IF_AT_LEAST, RETURN = 0x20, 0x35, 0x06
ALLOW, REFUSE_EPERM = 0x7FFF0000, 0x00050001
IO_URING_SETUP, IO_URING_REGISTER = 425, 427

program = [
    (LOAD_CALL, 0, 0, 0),
    (IF_AT_LEAST, 0, 2, IO_URING_SETUP),
    (IF_AT_LEAST, 1, 0, IO_URING_REGISTER + 1),
    (RETURN, 0, 0, REFUSE_EPERM),
    (RETURN, 0, 0, ALLOW),
]
text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *instruction) for instruction in program))
head = struct.pack("HxxxxxxP", len(program), ctypes.addressof(text))
prctl = ctypes.CDLL(None, use_errno=True).prctl
for words in [(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, head, 0, 0)]:
    if prctl(*words) != 0:
        sys.exit(f"prctl {words[0]}: {os.strerror(ctypes.get_errno())}")
os.execvp(sys.argv[1], sys.argv[1:])
