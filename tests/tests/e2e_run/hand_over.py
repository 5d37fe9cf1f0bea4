"""A server at a port of ours that hands its listener, or its connections, to another process in one of the ways there are. Whoever has
them says each line back."""
import ctypes, os, socket, subprocess, sys

how, port = sys.argv[1], int(sys.argv[2])


def serve(connection):
    with connection:
        for line in connection.makefile('rb'):
            connection.sendall(line)


def accept(listener):
    while True:
        serve(listener.accept()[0])


def program(*words):
    return [sys.executable, __file__, words[0], str(port), *map(str, words[1:])]


def child_by_line():
    """A program of its own, and a line to it."""
    here, there = socket.socketpair()
    child = subprocess.Popen(program('line', there.fileno()), pass_fds=[there.fileno()])
    there.close()
    assert here.recv(1) == b'!', 'it has begun'
    return here, child


if how == 'accept':
    accept(socket.socket(fileno=int(sys.argv[3])))
elif how == 'line':
    line = socket.socket(fileno=int(sys.argv[3]))
    line.send(b'!')
    while True:
        said, fds, _, _ = socket.recv_fds(line, 16, 4)
        if not said:
            sys.exit()
        handed = socket.socket(fileno=fds[0])
        accept(handed) if said == b'listener' else serve(handed)

listener = socket.create_server(('10.77.0.2', port), backlog=64)
listener.set_inheritable(True)
if how == 'alone':
    accept(listener)
elif how == 'fork':
    for _ in range(2):
        if os.fork() == 0:
            ctypes.CDLL(None).prctl(1, 9)  # It ends with its parent.
            break
    accept(listener)
elif how == 'exec':
    os.execv(sys.executable, program('accept', listener.fileno()))
elif how == 'posix_spawn':
    os.waitpid(os.posix_spawn(sys.executable, program('accept', listener.fileno()), os.environ), 0)
elif how == 'subprocess':
    subprocess.run(program('accept', listener.fileno()), pass_fds=[listener.fileno()])
elif how == 'listener by message':
    line, child = child_by_line()
    socket.send_fds(line, [b'listener'], [listener.fileno()])
    child.wait()
elif how == 'connections by message':
    line, child = child_by_line()
    while True:
        connection = listener.accept()[0]
        socket.send_fds(line, [b'connection'], [connection.fileno()])
        connection.close()
