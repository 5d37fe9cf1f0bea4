"""All that a process can see of itself, its children and its limits, as lines, before and after it has a socket of the card's, a pumped
connection and a child. What the library does is to be seen in none of them: run bare it prints the same."""
import ctypes, os, resource, signal, socket, struct, subprocess, sys, threading, time

libc = ctypes.CDLL(None, use_errno=True)
ours, theirs = sys.argv[1], sys.argv[2]
PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER, PR_GET_PDEATHSIG = 36, 37, 2
WALL, WCLONE = 0x40000000, 0x80000000
signals, forks = [], []
AT_FORK = ctypes.CFUNCTYPE(None)
at_fork = AT_FORK(lambda: forks.append(1))
libc.__register_atfork(at_fork, at_fork, None, None)  # pthread_atfork, as the C library has it for programs
for number in (signal.SIGCHLD, signal.SIGURG, signal.SIGALRM, signal.SIGUSR1, signal.SIGIO):
    signal.signal(number, lambda number, frame: signals.append(signal.Signals(number).name))
if 'subreaper' in sys.argv[3:]:
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
if 'few' in sys.argv[3:]:
    resource.setrlimit(resource.RLIMIT_NOFILE, (40, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
os.umask(0o027)
os.chdir('/usr')
signal.setitimer(signal.ITIMER_REAL, 5000)
signal.setitimer(signal.ITIMER_VIRTUAL, 6000)

def children_left(flags):
    libc.waitpid.restype = ctypes.c_int
    status = ctypes.c_int()
    found = libc.waitpid(-1, ctypes.byref(status), os.WNOHANG | flags)
    return found, ctypes.get_errno() if found < 0 else 0

def look(when):
    time.sleep(0.1)
    status = dict(line.split(':\t', 1) for line in open('/proc/self/status').read().splitlines() if ':\t' in line)
    say = lambda name, value: print(when, name, value)
    say('signals', signals)
    say('calls at fork', len(forks))
    try: say('waitid', os.waitid(os.P_ALL, 0, os.WEXITED | os.WSTOPPED | os.WCONTINUED | os.WNOHANG | os.WNOWAIT))
    except OSError as error: say('waitid', error.errno)
    for name, flags in (('wait', 0), ('wait all', WALL), ('wait clones', WCLONE)): say(name, children_left(flags))
    tasks = os.listdir('/proc/self/task')
    say('tasks', len(tasks))
    say('children', [len(open(f'/proc/self/task/{task}/children').read().split()) for task in tasks])
    say('state', [status[name] for name in ('SigBlk', 'SigPnd', 'ShdPnd', 'CapEff', 'CapPrm', 'NoNewPrivs', 'Seccomp', 'Umask', 'Uid')])
    reaper, death = ctypes.c_int(), ctypes.c_int()
    libc.prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(reaper), 0, 0, 0)
    libc.prctl(PR_GET_PDEATHSIG, ctypes.byref(death), 0, 0, 0)
    say('reaper', (reaper.value, death.value))
    say('limits', [resource.getrlimit(number) for number in range(16)])
    say('timers', [round(signal.getitimer(timer)[0], -2) for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)])
    say('directory', os.getcwd())
    say('group', (os.getpgrp() == group, os.getsid(0) == session, os.getppid() == parent))
    say('priority', (os.nice(0), os.sched_getaffinity(0), os.sched_getscheduler(0)))
    low = [fd for fd in range(500) if is_open(fd)]
    say('descriptors', low)
    opened = [os.open('/dev/null', os.O_RDONLY) for _ in range(3)]
    say('opens', opened)
    for fd in opened: os.close(fd)

def is_open(fd):
    try: os.fstat(fd)
    except OSError: return False
    return True

group, session, parent = os.getpgrp(), os.getsid(0), os.getppid()
look('at first')
listener = socket.create_server((ours, 7000))
look('with a listener')
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind((ours, 7000))
connection = socket.create_connection((theirs, 7000))
connection.sendall(b'x')
look('with a connection')
# A program that reads its standard input past the library: a process of the library's pumps.
connection.set_inheritable(True)
standard = os.dup(0)
os.dup2(connection.fileno(), 0)
child = subprocess.Popen(['/bin/cat'], stdout=subprocess.DEVNULL)
os.dup2(standard, 0)
os.close(standard)
time.sleep(0.3)
look('with a child')
child.terminate()
print(child.wait())
signals.clear()
look('without the child')
# A process that hears of the children that its own children leave.
if os.fork() == 0:
    heard = []
    signal.signal(signal.SIGCHLD, lambda number, frame: heard.append(number))
    os.dup2(connection.fileno(), 0)
    if os.fork() == 0:
        os.execv('/bin/true', ['true'])
    time.sleep(0.3)
    print('in a child', len(heard), os.wait()[1], children_left(WALL))
    sys.stdout.flush()
    os._exit(0)
os.wait()
signals.clear()
forks.clear()
look('after forks')
os.closerange(3, 65536)
look('with all closed')
