//! What an operator says about answers, as clients see it.

use super::testing::Bench;
use crate::config::WebConfig;
use std::fs;
use tempfile::TempDir;

fn site() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::create_dir_all(at("e")).unwrap();
    fs::write(at("index.html"), "<p>the application</p>").unwrap();
    fs::write(at("page.txt"), "page").unwrap();
    fs::write(at("e/404.html"), "<p>not here</p>").unwrap();
    directory
}

fn bench(directory: &TempDir, change: impl FnOnce(&mut WebConfig)) -> Bench {
    Bench::new(directory.path(), change)
}

#[test]
fn fields_are_of_every_response() {
    let directory = site();
    let mut bench = bench(&directory, |config| {
        config.headers = vec!["X-Frame-Options: DENY".parse().unwrap(), "Permissions-Policy: camera=()".parse().unwrap()];
    });
    let tag = bench.get("/page.txt", "").field("etag").unwrap().to_owned();
    for (path, fields, status) in [
        ("/page.txt", String::new(), 200),
        ("/page.txt", format!("If-None-Match: {tag}\r\n"), 304),
        ("/page.txt", "Range: bytes=0-1\r\n".to_owned(), 206),
        ("/none", String::new(), 404),
        ("/e", String::new(), 301),
        ("/%", String::new(), 400),
    ] {
        let response = bench.get(path, &fields);
        assert_eq!((response.status, response.field("x-frame-options")), (status, Some("DENY")), "{path}");
        assert_eq!(response.field("permissions-policy"), Some("camera=()"), "{path}");
    }
}

#[test]
fn addresses_lead_elsewhere() {
    let directory = site();
    let mut bench = bench(&directory, |config| {
        let all = ["/old=/page.txt", "308:/blog/*=https://blog.test/*"];
        config.redirects = all.iter().map(|text| text.parse().unwrap()).collect();
    });
    for (path, status, to) in [
        ("/old", 301, "/page.txt"),
        ("/old?a=b", 301, "/page.txt?a=b"),
        ("/x/../old", 301, "/page.txt"),
        ("/blog/2026/a%20b?c", 308, "https://blog.test/2026/a%20b?c"),
        ("/blog/", 308, "https://blog.test/"),
    ] {
        let response = bench.get(path, "");
        assert_eq!((response.status, response.field("location")), (status, Some(to)), "{path}");
        let head = bench.ask(format!("HEAD {path} HTTP/1.1\r\nHost: example\r\n\r\n"));
        assert_eq!((head.status, head.body.len()), (status, 0), "{path}");
    }
    assert_eq!(bench.get("/page.txt", "").status, 200);
    assert_eq!(bench.get("/blog", "").status, 404);
}

#[test]
fn an_error_has_the_operators_page() {
    let directory = site();
    let mut bench = bench(&directory, |config| config.error_pages = vec!["404=/e/404.html".parse().unwrap()]);
    for path in ["/none", "/none/deeper", "/none", "/e/"] {
        // Conditions and ranges are not of it.
        let response = bench.get(path, "If-None-Match: *\r\nRange: bytes=0-1\r\n");
        assert_eq!((response.status, response.body.as_slice()), (404, &b"<p>not here</p>"[..]), "{path}");
        assert_eq!(response.field("content-type"), Some("text/html; charset=utf-8"));
        assert_eq!(response.field("connection"), Some("keep-alive"));
    }
    let head = bench.ask("HEAD /none HTTP/1.1\r\nHost: example\r\n\r\n".to_owned());
    assert_eq!((head.status, head.body.len(), head.field("content-length")), (404, 0, Some("15")));
    // The file by its own name is a file.
    assert_eq!(bench.get("/e/404.html", "").status, 200);
    // One that comes to be is served, and one that goes is missed.
    fs::write(directory.path().join("none"), "now here").unwrap();
    bench.pass(std::time::Duration::from_secs(2));
    assert_eq!(bench.get("/none", "").body, b"now here");
    fs::remove_file(directory.path().join("e/404.html")).unwrap();
    bench.pass(std::time::Duration::from_secs(2));
    let plain = bench.get("/nothing", "");
    assert_eq!(plain.status, 404);
    assert!(String::from_utf8_lossy(&plain.body).contains("There is nothing at this address."));
}

#[test]
fn an_application_is_served_where_nothing_is() {
    let directory = site();
    let mut bench = bench(&directory, |config| config.fallback = Some("/index.html".parse().unwrap()));
    for path in ["/users/7", "/users/8?tab=a", "/users/7", "/"] {
        let response = bench.get(path, "");
        assert_eq!((response.status, response.body.as_slice()), (200, &b"<p>the application</p>"[..]), "{path}");
    }
    // It is one file, however many addresses it has: none of them is remembered as a file.
    let figures = bench.service.figures();
    for number in 0..50 {
        assert_eq!(bench.get(&format!("/users/{number}"), "").status, 200);
    }
    let more = bench.service.figures().cached_bytes - figures.cached_bytes;
    assert!(more < 50 * 1_200, "{more} bytes");
    assert_eq!(bench.get("/page.txt", "").body, b"page");
    fs::write(directory.path().join("users"), "a file").unwrap();
    bench.pass(std::time::Duration::from_secs(2));
    assert_eq!(bench.get("/users", "").body, b"a file");
    // Hidden files are not there, and not the application.
    assert_eq!(bench.get("/.git/config", "").status, 404);
}

#[test]
fn directories_without_an_index_are_listed_as_they_are() {
    let directory = site();
    let mut bench = bench(&directory, |config| config.listing = true);
    let page = bench.get("/e/", "");
    assert_eq!((page.status, page.field("content-type")), (200, Some("text/html; charset=utf-8")));
    assert!(String::from_utf8_lossy(&page.body).contains("<a href=\"./404.html\">404.html</a></td><td>15</td>"));
    let tag = page.field("etag").unwrap().to_owned();
    assert_eq!(bench.get("/e/", &format!("If-None-Match: {tag}\r\n")).status, 304);
    // What is in it changes, and not the directory itself.
    fs::write(directory.path().join("e/404.html"), "longer than before").unwrap();
    bench.pass(std::time::Duration::from_secs(2));
    let page = bench.get("/e/", &format!("If-None-Match: {tag}\r\n"));
    assert_eq!(page.status, 200);
    assert!(String::from_utf8_lossy(&page.body).contains("</a></td><td>18</td>"));
    assert_eq!(bench.get("/", "").body, b"<p>the application</p>");
    assert_eq!((bench.get("/e", "").status, bench.get("/none/", "").status), (301, 404));
    fs::write(directory.path().join("e/index.html"), "an index").unwrap();
    bench.pass(std::time::Duration::from_secs(2));
    assert_eq!(bench.get("/e/", "").body, b"an index");
}

#[test]
fn a_peer_makes_so_many_requests() {
    let directory = site();
    let mut bench = bench(&directory, |config| {
        config.limits.requests_per_peer = 2;
        config.limits.requests_burst = 3;
    });
    let statuses: Vec<u16> = (0..5).map(|_| bench.get("/page.txt", "").status).collect();
    assert_eq!(statuses, [200, 200, 200, 429, 429]);
    let refused = bench.get("/page.txt", "");
    assert_eq!((refused.field("retry-after"), refused.field("connection")), (Some("1"), Some("keep-alive")));
    assert_eq!(bench.service.figures().requests_limited, 3);
    bench.pass(std::time::Duration::from_secs(1));
    let statuses: Vec<u16> = (0..3).map(|_| bench.get("/page.txt", "").status).collect();
    assert_eq!(statuses, [200, 200, 429]);
}
