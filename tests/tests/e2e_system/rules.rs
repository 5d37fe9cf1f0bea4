//! What an operator says about answers (docs/web.md), as real clients see it.

use qanat_tests::e2e::{PATIENCE, Pages, Program, Server, eventually, qanat, scenario};
use rustix::process::Signal;

/// Status, and the fields of a response as curl shows them, and its body.
fn ask(words: &[&str]) -> String {
    let fixed = ["-sS", "--max-time", "20", "-i", "--noproxy", "*", "-k"];
    Program::new("curl").arguments(fixed).arguments(words).succeeds().text().replace('\r', "")
}

/// A host's name leads to the server.
fn at(server: &Server, host: &str) -> String {
    format!("{host}:{}:{}", server.address().port(), server.address().ip())
}

/// A hash as Debian's tools make it.
fn hash(tool: &str, words: &[&str]) -> String {
    Program::new(tool).arguments(words).succeeds().text().trim().to_owned()
}

const RULES: &str = r#"
[rules]
headers = ["X-Frame-Options: DENY"]
redirects = ["/old=/page.txt", "308:/blog/*=https://blog.example/*"]
rewrites = ["/v1/*=/*"]
error-pages = ["404=/404.html"]
basic-auth = ["/admin/*=users"]
compress = true
server-timing = true

[[host]]
names = ["app.example"]
directory = "app"
rules.fallback = "/index.html"
rules.cache-control = "no-cache"

[[host]]
names = ["files.example"]
directory = "files"
rules.listing = true
rules.headers = []
"#;

/// A directory that is served, and besides it the rules, other hosts' directories and passwords.
fn site() -> Pages {
    let bcrypt = hash("htpasswd", &["-nbB", "ann", "right"]);
    let sha = hash("openssl", &["passwd", "-6", "also right"]);
    Pages::new()
        .with("site/page.txt", "few words")
        .with("site/404.html", "<p>not here</p>")
        .with("site/admin/index.html", "for users")
        .with("site/long.css", "body { margin: 0; padding: 0 }\n".repeat(200))
        .with("app/index.html", "the application")
        .with("files/a file.txt", "12345")
        .with("users", format!("{bcrypt}\nbob:{sha}\n"))
        .with("site.toml", RULES)
}

/// The directory that is served, and the rules.
fn paths(pages: &Pages) -> (String, String) {
    (pages.file("site").display().to_string(), pages.file("site.toml").display().to_string())
}

#[test]
fn rules_of_a_file_hold_for_each_host_and_change_on_hup() {
    scenario(|| {
        let pages = site();
        let (directory, config) = paths(&pages);
        let server = Server::start(&[&directory, "--config", &config]);
        let url = |path: &str| server.url(path);
        let redirected = ask(&[&url("/old?a=b")]);
        assert!(
            redirected.starts_with("HTTP/1.1 301 ") && redirected.contains("\nLocation: /page.txt?a=b\n"),
            "{redirected}"
        );
        assert!(ask(&[&url("/blog/2026/x")]).contains("\nLocation: https://blog.example/2026/x\n"));
        assert!(ask(&[&url("/v1/page.txt")]).ends_with("\n\nfew words"));
        let page = ask(&[&url("/page.txt")]);
        assert!(page.contains("\nX-Frame-Options: DENY\n") && page.contains("\nServer-Timing: memory\n"), "{page}");
        let missing = ask(&[&url("/none")]);
        assert!(missing.starts_with("HTTP/1.1 404 ") && missing.ends_with("<p>not here</p>"), "{missing}");
        // Compressed, and what curl makes of it is the file.
        let compressed = ask(&["--compressed", &url("/long.css")]);
        assert!(compressed.contains("\nContent-Encoding: "), "{compressed}");
        assert!(compressed.ends_with(&"body { margin: 0; padding: 0 }\n".repeat(200)), "{compressed}");

        let closed = ask(&[&url("/admin/")]);
        assert!(
            closed.starts_with("HTTP/1.1 401 ") && closed.contains("WWW-Authenticate: Basic realm=\"/admin/\""),
            "{closed}"
        );
        for (user, status) in
            [("ann:right", "200"), ("bob:also right", "200"), ("ann:wrong", "401"), ("eve:right", "401")]
        {
            let answer = ask(&["-u", user, &url("/admin/")]);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{user}: {answer}");
            assert_eq!(answer.ends_with("for users"), status == "200", "{user}");
        }
        let app = ask(&["--resolve", &at(&server, "app.example"), "http://app.example/users/7"]);
        assert!(app.starts_with("HTTP/1.1 200 ") && app.ends_with("\n\nthe application"), "{app}");
        assert!(app.contains("\nCache-Control: no-cache\n") && app.contains("\nX-Frame-Options: DENY\n"), "{app}");
        let list = ask(&["--resolve", &at(&server, "files.example"), "http://files.example/"]);
        assert!(
            list.contains("<a href=\"./a%20file.txt\">a file.txt</a></td><td>5</td>") && !list.contains("X-Frame"),
            "{list}"
        );

        // Other rules, and another file of passwords in the place of the first, as administrators put them there.
        pages.write("site.toml.new", RULES.replace("DENY", "SAMEORIGIN"));
        std::fs::rename(pages.file("site.toml.new"), &config).expect("in its place");
        pages.write("users.new", hash("htpasswd", &["-nbB", "ann", "new"]));
        std::fs::rename(pages.file("users.new"), pages.file("users")).expect("in its place");
        server.signal(Signal::HUP);
        eventually("the new rules hold", PATIENCE, || {
            ask(&[&url("/page.txt")]).contains("\nX-Frame-Options: SAMEORIGIN\n")
        });
        assert!(ask(&["-u", "ann:right", &url("/admin/")]).starts_with("HTTP/1.1 401 "));
        assert!(ask(&["-u", "ann:new", &url("/admin/")]).starts_with("HTTP/1.1 200 "));
        // Rules that are none: what was read before goes on.
        pages.write("site.toml", "[rules]\nheaders = \"x\"\n");
        server.signal(Signal::HUP);
        eventually("it is said", PATIENCE, || server.errors().contains("What was read before goes on"));
        assert!(ask(&[&url("/page.txt")]).contains("\nX-Frame-Options: SAMEORIGIN\n"));
        let stopped = server.stop();
        assert_eq!((stopped.code, stopped.leaks()), (Some(0), vec![]));
    });
}

#[test]
fn users_and_rules_are_the_same_over_http2() {
    scenario(|| {
        let pages = site();
        let (directory, config) = paths(&pages);
        let server = Server::start(&[&directory, "--config", &config, "--https"]);
        let answer = |words: &[&str]| ask(&[&["--http2"], words].concat()).to_lowercase();
        assert!(answer(&[&server.url("/admin/")]).starts_with("http/2 401"));
        let open = answer(&["-u", "ann:right", &server.url("/admin/")]);
        assert!(
            open.starts_with("http/2 200") && open.ends_with("for users") && open.contains("\nx-frame-options: deny\n"),
            "{open}"
        );
        // Several at once, of one connection.
        let (one, other) = (server.url("/admin/"), server.url("/admin/index.html"));
        let both = Program::new("curl")
            .arguments(["-sSk", "--http2", "-Z", "--max-time", "20", "-u", "bob:also right", &one, &other])
            .succeeds();
        assert_eq!(both.text(), "for usersfor users");
        assert!(server.stop().leaks().is_empty());
    });
}

#[test]
fn what_is_wrong_with_rules_is_said_before_anything_is_served() {
    scenario(|| {
        let pages = site();
        let (directory, config) = paths(&pages);
        let check = |more: &[&str]| {
            Program::new(qanat()).arguments([&["web", &directory, "--check"], more].concat()).patience(PATIENCE).run()
        };
        let fine = check(&["--config", &config]);
        assert!(fine.code == Some(0) && fine.text().contains("2 more hosts"), "{}{}", fine.text(), fine.stderr);
        let fine = check(&["--config", &config, "--json"]);
        assert!(fine.text().starts_with("{\"directory\":") && fine.text().contains("\"hosts\":2"), "{}", fine.text());
        pages.write("none.toml", "[rules]\nfallbak = \"/x\"\n");
        pages.write("weak", "ann:$apr1$salt$hash\n");
        let weak = format!("/admin/*={}", pages.file("weak").display());
        let none = pages.file("none.toml").display().to_string();
        for (more, why) in [
            (["--config", &none], "unknown field `fallbak`"),
            (["--config", "/nowhere/site.toml"], "No such file"),
            (["--basic-auth", &weak], "line 1: this hash is none that is understood: make it by `htpasswd -B`"),
            (["--basic-auth", "/admin/*=/nowhere/users"], "/nowhere/users: No such file"),
            (["--host", "a.example=/nowhere"], "document root /nowhere"),
        ] {
            let refused = check(&more);
            assert!(
                refused.code == Some(1) && refused.stderr.contains(why),
                "{more:?}: {}{}",
                refused.text(),
                refused.stderr
            );
        }
        // Passwords that the user who serves can't read are told of before it serves.
        std::fs::set_permissions(pages.file("users"), std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .expect("a mode");
        let refused =
            Program::new(qanat()).arguments(["web", &directory, "--config", &config]).patience(PATIENCE).run();
        assert!(refused.code == Some(1) && refused.stderr.contains("users"), "{}{}", refused.text(), refused.stderr);
    });
}
