"""Echo servers, each as its language would have it."""

from stage import OURS, echoes, row

SAID_BACK = "what 6 clients say, to 300 KB at a time, said back"


@row("copas 1.2 (Lua 5.1)", "Lua", "coroutines over `select`", SAID_BACK)
def lua(stage):
    script = f"""
local copas, socket = require "copas", require "socket"
copas.addserver(assert(socket.bind("{OURS}", 7000)), function(stream)
    while true do
        local said, problem, part = copas.receivePartial(stream, 50000)
        said = said or part
        if said and #said > 0 then copas.send(stream, said) end
        if problem == "closed" then return end
    end
end)
copas.loop()
"""
    server = stage.serve("lua5.1", stage.file("server.lua", script), port=7000)
    echoes(7000)
    server.ends()


@row("Erlang/OTP 25 (BEAM)", "Erlang", "green threads over two schedulers; `epoll` in threads of its own", SAID_BACK)
def erlang(stage):
    program = f"""
-module(echo).
-export([start/0]).
start() ->
    {{ok, Listener}} = gen_tcp:listen(7000, [binary, {{ip, {{{OURS.replace(".", ",")}}}}}, {{active, once}}, {{reuseaddr, true}}, {{backlog, 64}}]),
    accept(Listener).
accept(Listener) ->
    {{ok, Stream}} = gen_tcp:accept(Listener),
    gen_tcp:controlling_process(Stream, spawn(fun() -> loop(Stream) end)),
    accept(Listener).
loop(Stream) ->
    receive
        {{tcp, Stream, Said}} -> ok = gen_tcp:send(Stream, Said), inet:setopts(Stream, [{{active, once}}]), loop(Stream);
        {{tcp_closed, Stream}} -> ok
    end.
"""
    stage.file("echo.erl", program)
    stage.client("erlc", "echo.erl")
    home = {"HOME": stage.directory}
    server = stage.serve("erl", "+S", "2:2", "-noshell", "-s", "echo", port=7000, environment=home)
    echoes(7000)
    server.ends()


@row("Tcl 8.6", "Tcl", "event loop (a notifier's thread, `epoll`)", SAID_BACK)
def tcl(stage):
    script = f"""
proc accept {{stream host port}} {{
    fconfigure $stream -translation binary -blocking 0 -buffering none
    fileevent $stream readable [list said $stream]
}}
proc said {{stream}} {{
    set bytes [read $stream 50000]
    puts -nonewline $stream $bytes
    if {{[eof $stream]}} {{ close $stream }}
}}
socket -server accept -myaddr {OURS} 7000
vwait forever
"""
    server = stage.serve("tclsh", stage.file("server.tcl", script), port=7000)
    echoes(7000)
    server.ends()


@row("Mono 6.8", "C#", "`async`/`await`: a thread that polls, a pool of threads", SAID_BACK)
def mono(stage):
    program = f"""
using System.Net; using System.Net.Sockets; using System.Threading.Tasks;
class Server {{
    static async Task Echo(TcpClient client) {{
        using (var stream = client.GetStream()) {{
            var bytes = new byte[50000];
            for (int count; (count = await stream.ReadAsync(bytes, 0, bytes.Length)) > 0;) await stream.WriteAsync(bytes, 0, count);
        }}
    }}
    static void Main() {{
        var listener = new TcpListener(IPAddress.Parse("{OURS}"), 7000);
        listener.Start();
        while (true) {{ var ignored = Echo(listener.AcceptTcpClient()); }}
    }}
}}
"""
    stage.file("server.cs", program)
    stage.client("mcs", "server.cs")
    server = stage.serve("mono", "server.exe", port=7000)
    echoes(7000)
    server.ends()


@row("Rust, its standard library", "Rust", "a thread for each connection, blocking", SAID_BACK)
def rust(stage):
    program = f"""
use std::io::{{Read, Write}};
fn main() {{
    for stream in std::net::TcpListener::bind("{OURS}:7000").unwrap().incoming() {{
        let mut stream = stream.unwrap();
        std::thread::spawn(move || {{
            let mut bytes = vec![0; 50_000];
            while let Ok(count @ 1..) = stream.read(&mut bytes) {{ stream.write_all(&bytes[..count]).unwrap(); }}
        }});
    }}
}}
"""
    stage.file("server.rs", program)
    stage.client("rustc", "-o", "server", "server.rs")
    server = stage.serve("./server", port=7000)
    echoes(7000)
    server.ends()

@row("liburing 2.3", "C", "`io_uring`", "refused with the reason (`ENOSYS`, and `--explain`): its operations are the kernel's, which knows of no socket of ours")
def liburing(stage):
    program = f"""
#include <liburing.h>
#include <arpa/inet.h>
#include <string.h>
#include <stdio.h>
int main(void) {{
    struct sockaddr_in address = {{ .sin_family = AF_INET, .sin_port = htons(7000) }};
    inet_pton(AF_INET, "{OURS}", &address.sin_addr);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (void *)&address, sizeof address) || listen(listener, 64)) return 1;
    struct io_uring ring;
    int problem = io_uring_queue_init(8, &ring, 0);
    printf("%s\\n", problem ? strerror(-problem) : "there is a ring");
    return 0;
}}
"""
    stage.file("ring.c", program)
    stage.client("clang", "-o", "ring", "ring.c", "-luring")
    asked = stage.run("./ring")
    asked.waits((0,))
    if not stage.is_bare:
        assert asked.output() == b"Function not implemented\n", asked.said()
        assert "io_uring_setup: refused" in asked.said(), asked.said()
