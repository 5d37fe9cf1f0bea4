//! What an operator says about answers, as clients see it.

use super::testing::Bench;
use crate::config::WebConfig;
use crate::rules::{RIGHT, Rules, Site};
use std::fmt::Debug;
use std::fs;
use std::str::FromStr;
use tempfile::TempDir;

pub(super) fn site() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::create_dir_all(at("e")).unwrap();
    fs::write(at("index.html"), "<p>the application</p>").unwrap();
    fs::write(at("page.txt"), "page").unwrap();
    fs::write(at("e/404.html"), "<p>not here</p>").unwrap();
    directory
}

/// What is written as options are.
fn texts<T: FromStr<Err: Debug>>(all: &[&str]) -> Option<Vec<T>> {
    Some(all.iter().map(|text| text.parse().unwrap()).collect())
}

fn bench(directory: &TempDir, change: impl FnOnce(&mut WebConfig)) -> Bench {
    Bench::new(directory.path(), change)
}

#[test]
fn fields_are_of_every_response() {
    let directory = site();
    let mut bench = bench(&directory, |config| {
        config.rules.headers = texts(&["X-Frame-Options: DENY", "Permissions-Policy: camera=()"]);
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
        config.rules.redirects = texts(&["/old=/page.txt", "308:/blog/*=https://blog.test/*"]);
        config.rules.rewrites = texts(&["/v1/*=/*", "/app=/"]);
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
    for _ in 0..2 {
        assert_eq!(bench.get("/v1/page.txt?a", "").body, b"page");
        assert_eq!(bench.get("/app", "").body, b"<p>the application</p>");
    }
    assert!(bench.service.figures().fast_path >= 2, "what is rewritten is known as it was written");
}

#[test]
fn an_error_has_the_operators_page() {
    let directory = site();
    let mut bench = bench(&directory, |config| config.rules.error_pages = texts(&["404=/e/404.html"]));
    for path in ["/none", "/none/deeper", "/none", "/e/"] {
        // Conditions and ranges are not of it.
        let response = bench.get(path, "If-None-Match: *\r\nRange: bytes=0-1\r\n");
        assert_eq!((response.status, response.body.as_slice()), (404, &b"<p>not here</p>"[..]), "{path}");
        assert_eq!(response.field("content-type"), Some("text/html; charset=utf-8"));
        assert_eq!(response.field("connection"), Some("keep-alive"));
    }
    let head = bench.ask("HEAD /none HTTP/1.1\r\nHost: example\r\n\r\n");
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
    let mut bench = bench(&directory, |config| config.rules.fallback = Some("/index.html".parse().unwrap()));
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
    let mut bench = bench(&directory, |config| config.rules.listing = Some(true));
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

/// `Authorization` of a user.
pub(super) fn as_user(text: &str) -> String {
    use base64::Engine;
    format!("Authorization: Basic {}\r\n", base64::prelude::BASE64_STANDARD.encode(text))
}

pub(super) fn protected(directory: &TempDir, paths: &[&str]) -> Bench {
    fs::create_dir_all(directory.path().join("admin/sub")).unwrap();
    for name in ["admin/index.html", "admin/sub/x", "secret.txt", "secret.txt.gz"] {
        fs::write(directory.path().join(name), "for users").unwrap();
    }
    let users = directory.path().join(".users");
    fs::write(&users, format!("ann:{}\nbob:{}\n", RIGHT[0], RIGHT[3])).unwrap();
    let all: Vec<String> = paths.iter().map(|path| format!("{path}={}", users.display())).collect();
    bench(directory, |config| {
        config.rules.basic_auth = texts(&all.iter().map(String::as_str).collect::<Vec<_>>());
        config.rules.rewrites = texts(&["/door=/admin/", "/admin/out=/page.txt"]);
        config.rules.redirects = texts(&["/admin/old=/page.txt"]);
    })
}

#[test]
fn what_is_for_users_needs_a_password() {
    let directory = site();
    let mut bench = protected(&directory, &["/admin/*", "/secret.txt"]);
    let paths = [
        "/admin",
        "/admin/",
        "/admin/sub/x",
        "/admin/none",
        "/x/../admin/",
        "/%61dmin/",
        "//admin/",
        "/admin/?a",
        "/door",
        "/admin/out",
        "/admin/old",
        "/secret.txt",
        "/secret.txt.gz",
        "/./secret.txt",
    ];
    for path in paths {
        for fields in
            [String::new(), as_user("ann:wrong"), as_user("eve:right"), as_user("ann:"), "Authorization: x\r\n".into()]
        {
            let response = bench.get(path, &fields);
            assert_eq!(response.status, 401, "{path} {fields}");
            let realm = if path.contains("secret") { "/secret.txt" } else { "/admin/" };
            let expected = format!("Basic realm=\"{realm}\", charset=\"UTF-8\"");
            assert_eq!(response.field("www-authenticate"), Some(expected.as_str()), "{path}");
            assert!(
                !response.body.windows(9).any(|part| part == b"for users") || response.body.starts_with(b"<!DOCTYPE")
            );
        }
    }
    assert_eq!((bench.get("/page.txt", "").status, bench.get("/", "").status), (200, 200));
    let before = bench.service.figures();
    for _ in 0..5 {
        for user in ["ann:right", "bob:right"] {
            assert_eq!(bench.get("/admin/", &as_user(user)).body, b"for users");
            assert_eq!(bench.get("/admin/sub/x", &as_user(user)).body, b"for users");
            assert_eq!(bench.get("/door", &as_user(user)).body, b"for users");
            assert_eq!(bench.get("/admin/old", &as_user(user)).status, 301);
            assert_eq!(bench.get("/admin/none", &as_user(user)).status, 404);
        }
    }
    let after = bench.service.figures();
    assert_eq!((after.passwords_right, after.passwords_wrong), (2, before.passwords_wrong), "each is looked at once");
    assert!(before.passwords_wrong > 30);
    // Who was let in does not let others in.
    assert_eq!(bench.get("/admin/", "").status, 401);
    assert_eq!(bench.get("/admin/", &as_user("ann:righ")).status, 401);
}

#[test]
fn who_may_see_some_may_not_see_what_fewer_may() {
    let directory = site();
    fs::create_dir_all(directory.path().join("admin")).unwrap();
    for name in ["admin/index.html", "admin/none.html"] {
        fs::write(directory.path().join(name), "for bosses").unwrap();
    }
    let files = [(".all", "ann"), (".bosses", "bob")].map(|(name, user)| {
        let file = directory.path().join(name);
        fs::write(&file, format!("{user}:{}\n", RIGHT[3])).unwrap();
        file.display().to_string()
    });
    let auth = [format!("/*={}", files[0]), format!("/admin/*={}", files[1]), format!("/e/404.html={}", files[1])];
    let mut bench = bench(&directory, |config| {
        config.rules.basic_auth = texts(&auth.each_ref().map(String::as_str));
        config.rules.rewrites = texts(&["/door=/admin/"]);
        config.rules.error_pages = texts(&["404=/admin/none.html"]);
    });
    for _ in 0..2 {
        assert_eq!(bench.get("/page.txt", &as_user("ann:right")).status, 200);
        assert_eq!(bench.get("/admin/", &as_user("bob:right")).body, b"for bosses");
        for path in ["/admin/", "/door", "/none", "/e/404.html"] {
            assert_eq!(bench.get(path, &as_user("ann:right")).status, 401, "{path}");
        }
    }
}

#[test]
fn who_was_asked_within_a_space_has_its_pages() {
    let directory = site();
    fs::create_dir_all(directory.path().join("admin")).unwrap();
    let [all, bosses] = [(".all", "ann"), (".bosses", "bob")].map(|(name, user)| {
        let file = directory.path().join(name);
        fs::write(&file, format!("{user}:{}\n", RIGHT[3])).unwrap();
        file.display().to_string()
    });
    let auth = [format!("/*={all}"), format!("/admin/*={bosses}")];
    let mut bench = bench(&directory, |config| {
        config.rules.basic_auth = texts(&auth.each_ref().map(String::as_str));
        config.rules.error_pages = texts(&["404=/e/404.html"]);
        config.rules.rewrites = texts(&["/e/*=/e"]);
    });
    let page = bench.get("/admin/none", &as_user("bob:right"));
    assert_eq!((page.status, page.body.as_slice()), (404, &b"<p>not here</p>"[..]));
    assert_eq!(bench.get("/none", &as_user("bob:right")).status, 401);
    // No address leads to itself.
    assert_eq!(bench.get("/e/", &as_user("ann:right")).status, 404);
    // A reload has nobody looked at again whose password is the same.
    let rules = Rules { basic_auth: texts(&auth.each_ref().map(String::as_str)), ..Rules::default() };
    bench.service.handle().set_sites(&rules, &[]).unwrap();
    let before = bench.service.figures().passwords_right;
    bench.service.reload();
    assert_eq!(bench.get("/page.txt", &as_user("ann:right")).status, 200);
    assert_eq!(bench.service.figures().passwords_right, before);
    fs::write(&all, format!("ann:{}\n", RIGHT[0])).unwrap();
    bench.service.handle().set_sites(&rules, &[]).unwrap();
    bench.service.reload();
    assert_eq!(bench.get("/page.txt", &as_user("ann:right")).status, 200);
    assert_eq!(bench.service.figures().passwords_right, before + 1, "another hash is another password");
}

#[test]
fn a_look_up_from_before_a_reload_is_made_anew() {
    let (directory, other) = (site(), tempfile::tempdir().unwrap());
    fs::write(other.path().join("page.txt"), "of the other").unwrap();
    let mut bench = bench(&directory, |_| ());
    // It waits for the reader when the sites change their places.
    let id = (0..1_000).find_map(|_| {
        bench.service.reload();
        let id = bench.open();
        bench.data(id, "GET /page.txt HTTP/1.1\r\nHost: example\r\n\r\n");
        bench.is_busy(id).then_some(id)
    });
    let id = id.expect("a reader that takes longer than the service");
    let site = Site { hosts: vec!["example".to_owned()], root: other.path().to_owned(), rules: Rules::default() };
    bench.service.handle().set_sites(&Rules::default(), &[site]).unwrap();
    bench.service.reload();
    bench.run(id);
    let stream = String::from_utf8_lossy(&bench.peer.streams[&id]).into_owned();
    assert!(stream.ends_with("of the other"), "{stream}");
    for _ in 0..2 {
        assert_eq!(bench.get("/page.txt", "").body, b"of the other");
    }
}

#[test]
fn a_directory_of_a_rewritten_address_stays_there_and_queries_are_joined() {
    let directory = site();
    let mut bench = bench(&directory, |config| {
        config.rules.rewrites = texts(&["/v1/*=/*", "/errors=/e"]);
        config.rules.redirects = texts(&["/old=/new?x=1"]);
    });
    let all = [
        ("/v1/e?a", "/v1/e/?a"),
        ("/errors", "/e/"),
        ("/e", "/e/"),
        ("/old?a=b", "/new?x=1&a=b"),
        ("/old", "/new?x=1"),
    ];
    for (path, to) in all {
        assert_eq!(bench.get(path, "").field("location"), Some(to), "{path}");
    }
}

#[test]
fn rules_change_while_it_serves() {
    let (directory, other) = (site(), tempfile::tempdir().unwrap());
    fs::write(other.path().join("index.html"), "other").unwrap();
    let mut bench = bench(&directory, |config| config.rules.headers = texts(&["X-A: 1"]));
    assert_eq!(bench.get("/", "").field("x-a"), Some("1"));
    let handle = bench.service.handle();
    let rules = Rules { headers: texts(&["X-A: 2"]), ..Rules::default() };
    let site = |root: &std::path::Path| Site {
        hosts: vec!["example".to_owned()],
        root: root.to_owned(),
        rules: Rules { cache_control: Some("no-cache".to_owned()), ..Rules::default() },
    };
    let error = handle.set_sites(&rules, &[site(&other.path().join("none"))]).unwrap_err();
    assert!(error.to_string().contains("none"), "{error}");
    handle.reload();
    bench.pass(std::time::Duration::from_secs(1));
    assert_eq!(bench.get("/", "").field("x-a"), Some("1"), "all stays as it was");
    handle.set_sites(&rules, &[site(other.path())]).unwrap();
    handle.reload();
    bench.pass(std::time::Duration::from_secs(1));
    let response = bench.get("/", "");
    assert_eq!((response.field("x-a"), response.field("cache-control")), (Some("2"), Some("no-cache")));
    assert_eq!(response.body, b"other");
    let elsewhere = bench.ask("GET /page.txt HTTP/1.1\r\nHost: elsewhere\r\n\r\n");
    assert_eq!((elsewhere.body.as_slice(), elsewhere.field("cache-control")), (&b"page"[..], None));
}

#[test]
fn what_clients_may_have_compressed_is_compressed_once() {
    let directory = site();
    let text = "a line of text that comes again\n".repeat(200);
    fs::write(directory.path().join("long.txt"), &text).unwrap();
    let mut bench = bench(&directory, |config| config.rules.compress = Some(true));
    for (accepted, coding) in [("br, gzip", Some("br")), ("gzip", Some("gzip")), ("", None), ("br", Some("br"))] {
        let response = bench.get("/long.txt", &format!("Accept-Encoding: {accepted}\r\n"));
        assert_eq!((response.status, response.field("content-encoding")), (200, coding), "{accepted}");
        assert_eq!(response.field("vary"), Some("Accept-Encoding"));
        assert_eq!(response.body.len() < text.len(), coding.is_some());
        let tag = response.field("etag").unwrap().to_owned();
        let again = bench.get("/long.txt", &format!("Accept-Encoding: {accepted}\r\nIf-None-Match: {tag}\r\n"));
        assert_eq!(again.status, 304);
    }
    assert_eq!(bench.service.figures().lookups, 1);
    // The file changes, and what was made of it goes.
    fs::write(directory.path().join("long.txt"), "another line\n".repeat(300)).unwrap();
    bench.pass(std::time::Duration::from_secs(2));
    let plain = bench.get("/long.txt", "");
    assert_eq!(plain.body.len(), 3_900);
    let compressed = bench.get("/long.txt", "Accept-Encoding: gzip\r\n");
    let mut opened = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(compressed.body.as_slice()), &mut opened).unwrap();
    assert_eq!(opened.as_bytes(), plain.body);
    // One that can't be used is not looked for again and again.
    fs::create_dir(directory.path().join("long.txt.br")).unwrap();
    bench.pass(std::time::Duration::from_secs(2));
    bench.get("/long.txt", "");
    let before = bench.service.figures().lookups;
    for _ in 0..3 {
        bench.pass(std::time::Duration::from_secs(2));
        assert_eq!(bench.get("/long.txt", "Accept-Encoding: gzip\r\n").body, compressed.body);
    }
    assert_eq!(bench.service.figures().lookups, before);
    // One that is put there goes before it.
    fs::write(directory.path().join("long.txt.gz"), "as it was put").unwrap();
    bench.pass(std::time::Duration::from_secs(2));
    assert_eq!(bench.get("/long.txt", "Accept-Encoding: gzip\r\n").body, b"as it was put");
}

#[test]
fn responses_say_how_long_they_waited() {
    let directory = site();
    let mut bench = bench(&directory, |config| config.rules.server_timing = Some(true));
    let first = bench.get("/page.txt", "");
    assert!(first.field("server-timing").is_some_and(|said| said.starts_with("wait;dur=")), "{first:?}");
    for fields in ["", "Range: bytes=0-1\r\n"] {
        let again = bench.get("/page.txt", fields);
        assert_eq!(again.field("server-timing"), Some("memory"), "{fields}");
    }
    assert_eq!(first.body, b"page");
    // The next request of a connection is another one.
    let id = bench.open();
    let stream =
        bench.stream(id, "GET /index.html HTTP/1.1\r\nHost: a\r\n\r\nGET /page.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    let all = super::testing::responses(&stream, &[false; 2]);
    let said: Vec<&str> = all.iter().map(|response| response.field("server-timing").unwrap()).collect();
    assert!(said[0].starts_with("wait") && said[1] == "memory", "{said:?}");
}

#[test]
fn what_protects_nothing_is_refused() {
    use crate::service::WebService;
    let directory = site();
    let users = directory.path().join(".users");
    fs::write(&users, format!("ann:{}\n", RIGHT[0])).unwrap();
    let mut config = WebConfig::new(directory.path());
    config.rules.basic_auth = texts(&[&format!("/e={}", users.display())]);
    let error = WebService::new(config.clone()).unwrap_err().to_string();
    assert!(error.contains("PATH/*"), "{error}");
    let twice = format!("/x/*={}", users.display());
    config.rules.basic_auth = texts(&[&*twice, &*twice]);
    let error = WebService::new(config.clone()).unwrap_err().to_string();
    assert!(error.contains("said once"), "{error}");
    config.rules.basic_auth = None;
    config.rules.headers = texts(&[&*format!("X-A: {}", "a".repeat(4_000)); 3]);
    let error = WebService::new(config).unwrap_err().to_string();
    assert!(error.contains("8192"), "{error}");
}

#[test]
fn passwords_are_not_served() {
    use crate::service::WebService;
    let directory = site();
    for (name, is_served) in [("users", true), ("e/users", true), (".users", false), (".keys/users", false)] {
        let file = directory.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, format!("ann:{}\n", RIGHT[0])).unwrap();
        let mut config = WebConfig::new(directory.path());
        config.rules.basic_auth = texts(&[&format!("/admin/*={}", file.display())]);
        let outcome = WebService::new(config.clone());
        assert_eq!(outcome.is_err_and(|error| error.to_string().contains("would be served")), is_served, "{name}");
        config.hidden_files = true;
        assert!(WebService::new(config).is_err(), "{name}");
    }
}
