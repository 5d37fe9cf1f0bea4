use super::*;
use crate::load::http::HttpLoadOptions;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A server of one thread per connection that answers every request with `body`; closes when asked to.
fn server(body: Vec<u8>) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let accepted = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&accepted);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            counter.fetch_add(1, Ordering::Relaxed);
            let body = body.clone();
            std::thread::spawn(move || serve(stream, &body));
        }
    });
    (address, accepted)
}

fn serve(mut stream: std::net::TcpStream, body: &[u8]) {
    let mut seen = Vec::new();
    let mut memory = [0u8; 4096];
    while let Ok(count @ 1..) = stream.read(&mut memory) {
        seen.extend_from_slice(&memory[..count]);
        while let Some(end) = memchr::memmem::find(&seen, b"\r\n\r\n") {
            let close = memchr::memmem::find(&seen[..end], b"Connection: close").is_some();
            seen.drain(..end + 4);
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            if stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)).is_err() || close {
                return;
            }
        }
    }
}

fn load(address: SocketAddr, change: impl FnOnce(&mut HttpLoadOptions)) -> Report {
    let mut options = HttpLoadOptions {
        urls: vec![format!("http://{address}/x")],
        connections: 4,
        duration: Duration::from_millis(200),
        warm_up: Duration::from_millis(20),
        verify: true,
        ..HttpLoadOptions::default()
    };
    change(&mut options);
    run(HttpPlan::new(&options).unwrap(), &StopHandle::new().unwrap(), &mut |_| {}).unwrap()
}

#[test]
fn loads_a_server() {
    let (address, accepted) = server(vec![b'x'; 100_000]);
    let report = load(address, |_| {});
    assert!(report.requests > 10 && report.errors_total == 0, "{report}");
    assert_eq!(accepted.load(Ordering::Relaxed), 4);
    assert!(report.received_bytes >= report.requests * 99_000);
    let report = load(address, |options| options.pipeline = 8);
    assert!(report.requests > 10 && report.errors_total == 0, "{report}");
}

#[test]
fn opens_a_connection_per_request() {
    let (address, accepted) = server(b"hello".to_vec());
    let report = load(address, |options| options.close = true);
    assert!(report.requests > 5 && report.errors_total == 0, "{report}");
    assert!(accepted.load(Ordering::Relaxed) as u64 >= report.requests);
    assert!(report.connect_time_us.count >= report.requests);
}

#[test]
fn keeps_a_rate() {
    let (address, _) = server(b"hello".to_vec());
    for close in [false, true] {
        let report = load(address, |options| (options.close, options.rate_per_s) = (close, Some(500.0)));
        assert_eq!(report.errors_total, 0, "{report}");
        let open = report.open_loop.unwrap();
        let expected = 500.0 * report.duration_s;
        // A machine that stood still at the end has not scheduled what was due then.
        assert!(open.scheduled > 4 && open.scheduled as f64 <= expected + 2.0, "{open:?}");
        assert!(report.requests <= open.scheduled + 4);
    }
}

#[test]
fn a_closed_port_refuses() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let report = load(address, |_| {});
    assert_eq!(report.requests, 0);
    assert!(report.errors.connect_refused > 0 && report.errors.connect_refused == report.errors_total, "{report}");
}
