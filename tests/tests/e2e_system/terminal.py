"""A terminal, for tests of what its end does: HOW COMMAND…

HOW says what runs the command there: `alone`, `shell` (sh, in the foreground), `job` (an interactive bash, in the foreground),
`background` and `disowned` (of an interactive bash), `relay` (a parent that has given the command a terminal of its own, and passes
signals on, as sudo does). A line on standard input closes the terminal; the end of it ends this program.
"""
import os
import pty
import select
import shlex
import signal
import sys

BASH = ["bash", "--norc", "--noprofile", "-i"]


def relay(command):
    """As sudo with `use_pty`: it lives as long as the command, whose terminal is its own."""
    child, inner = pty.fork()
    if child == 0:
        os.execvp(command[0], command)
    signal.signal(signal.SIGHUP, lambda *_: os.kill(child, signal.SIGHUP))
    while True:
        try:
            if not os.read(inner, 4096):
                break
        except OSError:
            break
    os.waitpid(child, 0)
    os._exit(0)


def main():
    how, command = sys.argv[1], sys.argv[2:]
    words = shlex.join(command)
    typed = {"job": words, "background": f"{words} &", "disowned": f"{words} & disown"}.get(how)
    child, master = pty.fork()
    if child == 0:
        if how == "relay":
            relay(command)
        program = {"alone": command, "shell": ["sh", "-c", f"{words}; true"]}.get(how, BASH)
        os.execvp(program[0], program)
    if typed:
        os.write(master, f"{typed}\n".encode())
    open_ends = [0, master]
    while True:
        ready, _, _ = select.select(open_ends, [], [])
        if master in ready:
            try:
                ended = not os.read(master, 4096)
            except OSError:
                ended = True
            if ended:
                open_ends.remove(master)
        if 0 in ready:
            if not os.read(0, 4096):
                return
            # Nobody reads from it at this moment: this is the last there is of it.
            os.close(master)
            open_ends = [0]
            print("closed", flush=True)


main()
