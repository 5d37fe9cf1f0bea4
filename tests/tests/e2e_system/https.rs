//! HTTPS with the clients people have: curl (OpenSSL), openssl itself, GnuTLS.

use qanat_tests::e2e::{Client, Pages, Program, Server, eventually, qanat, scenario};
use rustix::process::Signal;
use std::path::Path;
use std::time::Duration;

/// A directory with a certificate for `a.example.org` and the address that servers have, and its key.
pub fn certificate(directory: &Path) {
    let to = directory.to_str().expect("a plain name");
    let made =
        Program::new(qanat()).arguments(["cert", "a.example.org", "10.77.0.2", "--to", to, "--force"]).succeeds();
    assert!(made.text().contains("certificate.pem"), "{}", made.text());
}

/// Options for a server with it.
fn options(directory: &Path) -> [String; 5] {
    let file = |name: &str| directory.join(name).to_str().expect("a plain name").to_owned();
    ["--https".into(), "--certificate".into(), file("certificate.pem"), "--key".into(), file("key.pem")]
}

pub fn start(pages: &Pages, of_certificate: &Path, more: &[&str]) -> Server {
    let options = options(of_certificate);
    let mut arguments = vec![pages.argument()];
    arguments.extend(options.iter().map(String::as_str));
    arguments.extend(more);
    Server::start(&arguments)
}

/// What curl gets, trusting the certificate.
pub fn curl(of_certificate: &Path, arguments: &[&str]) -> Vec<u8> {
    let trusted = of_certificate.join("certificate.pem");
    let fixed = ["-sS", "--max-time", "30", "--cacert", trusted.to_str().expect("a plain name")];
    Program::new("curl").arguments(fixed).arguments(arguments).succeeds().stdout
}

pub fn text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

const REQUEST: &str = "GET / HTTP/1.1\r\nHost: a.example.org\r\nConnection: close\r\n\r\n";

fn s_client(server: &Server) -> Program {
    let connect = format!("{}:443", server.url("").replace("https://", ""));
    Program::new("openssl").arguments(["s_client", "-connect", &connect, "-servername", "a.example.org"]).piped()
}

/// What a client says that asks for the index, until the server closes.
fn ask(client: Program) -> String {
    let mut client = client.start();
    client.say(REQUEST);
    let outcome = client.wait(Duration::from_secs(20));
    format!("{}{}", outcome.text(), outcome.stderr)
}

#[test]
fn every_version_suite_and_library_gets_the_same_bytes_in_both_placements() {
    scenario(|| {
        let content = Pages::pattern(3_000_000);
        let pages = Pages::new().with("data", &content).with("index.html", "few words");
        let keys = Pages::new();
        certificate(keys.path());
        for placement in ["linked", "split"] {
            let mut server = start(&pages, keys.path(), &["--placement", placement, "--hsts", "60"]);
            for how in [
                &["--tlsv1.3"][..],
                &["--tls-max", "1.2"],
                &["--tls13-ciphers", "TLS_AES_256_GCM_SHA384"],
                &["--tls13-ciphers", "TLS_CHACHA20_POLY1305_SHA256"],
                &["--curves", "P-256"],
                &["--limit-rate", "3M"],
            ] {
                let got = curl(keys.path(), &[how, &["--http1.1", &server.url("/data")]].concat());
                assert!(got == content, "{placement}, {how:?}: {} bytes", got.len());
            }
            let part = curl(keys.path(), &["-r", "1000000-1999999", &server.url("/data")]);
            assert!(part == content[1_000_000..2_000_000], "{placement}: a range");
            let head = text(curl(keys.path(), &["--http1.1", "-I", &server.url("/")]));
            assert!(head.contains("Strict-Transport-Security: max-age=60\r\n"), "{head}");
            // Several on one connection.
            let url = server.url("/");
            let several = curl(keys.path(), &["--http1.1", &url, &url, &url, "-w", "%{num_connects}"]);
            assert_eq!(text(several), "few words1few words0few words0");
            // GnuTLS, and its verification.
            let host = server.url("").replace("https://", "");
            let trusted = keys.file("certificate.pem");
            let gnutls = [
                "--x509cafile",
                trusted.to_str().expect("plain"),
                "--verify-hostname",
                "a.example.org",
                "--logfile",
                "/dev/null",
            ];
            let said = ask(Program::new("gnutls-cli").arguments(gnutls).arguments([host.as_str()]).piped());
            assert!(said.contains("few words"), "{placement}: {said}");
            // Keys are changed in the middle: the client's, then both sides'.
            for (letter, updates, requests) in [("k", 1, 12), ("K", 2, 13)] {
                // Figures may be older than what has just been answered.
                let before = server.figures_when("all is counted", |now| now["web"]["requests"] == requests);
                let tls = before["web"]["tls"].clone();
                let after = |name: &str, more: u64| tls[name].as_u64().expect("a number") + more;
                let mut client = s_client(&server).arguments(["-tls1_3"]).start();
                server.figures_when("it is there", |now| now["web"]["tls"]["handshakes"] == after("handshakes", 1));
                client.say(&format!("{letter}\n"));
                server.figures_when("its keys change", |now| {
                    now["web"]["tls"]["key_updates"] == after("key_updates", updates)
                });
                client.say(REQUEST);
                let outcome = client.wait(Duration::from_secs(20));
                assert!(outcome.text().contains("few words"), "{placement}: {}{}", outcome.text(), outcome.stderr);
            }
            let stopped = server.stop();
            assert_eq!(stopped.code, Some(0));
            if placement == "linked" {
                // What a net core holds is its own to tell.
                assert_eq!(stopped.leaks(), Vec::<String>::new());
            }
            assert_eq!(
                stopped.last["web"]["connections_broken"], 0,
                "who says goodbye and does not wait breaks nothing"
            );
        }
    });
}

#[test]
fn plain_requests_are_told_where_to_go_and_garbage_harms_nobody() {
    scenario(|| {
        let pages = Pages::new().with("index.html", "few words");
        let server = Server::start(&[pages.argument(), "--https"]);
        let plain = server.url("").replace("https://", "http://");
        let head = Program::new("curl").arguments(["-sSI", &format!("{plain}/a/b?c=d")]).succeeds().text();
        assert!(
            head.starts_with("HTTP/1.1 301 ") && head.contains(&format!("Location: {}\r\n", server.url("/a/b?c=d"))),
            "{head}"
        );
        assert!(!head.contains("Strict-Transport"), "{head}");
        let post = Program::new("curl")
            .arguments(["-sS", "-o", "/dev/null", "-w", "%{http_code}", "-d", "x", &plain])
            .succeeds()
            .text();
        assert_eq!(post, "405", "there is nothing here that takes it");
        // The certificate is its own: followed only by who takes any.
        let followed = ["-sS", "-L", "-k", &plain];
        assert_eq!(Program::new("curl").arguments(followed).succeeds().text(), "few words");
        assert!(Program::new("curl").arguments(["-sS", &server.url("/")]).run().stderr.contains("self-signed"));
        let wrong = Program::new("curl").arguments(["-sS", &format!("{plain}:443/")]).succeeds().text();
        assert!(wrong.contains("speaks HTTPS"), "{wrong}");
        let address = server.address();
        for garbage in [&[22u8, 3, 1, 0, 5, 1, 0, 0, 1, 9][..], &[0; 100], &[22, 3, 1, 0xff, 0xff], b"\x16"] {
            let mut client = Client::connect(address).expect("a connection");
            client.send(garbage).expect("sent");
        }
        assert_eq!(Program::new("curl").arguments(followed).succeeds().text(), "few words");
        // A port of its own, and no other.
        let stopped = server.stop();
        assert_eq!((stopped.code, stopped.leaks()), (Some(0), vec![]));
        let server = Server::start(&[pages.argument(), "--https", "--port", "8443", "--redirect-port", "0"]);
        assert!(server.url("").ends_with(":8443"), "{}", server.url(""));
        assert_eq!(Program::new("curl").arguments(["-sSk", &server.url("/")]).succeeds().text(), "few words");
        server.stop();
    });
}

#[test]
fn tickets_are_good_after_a_restart_and_certificates_change_without_one() {
    scenario(|| {
        let content = Pages::pattern(30_000_000);
        let pages = Pages::new().with("index.html", "few words").with("large.bin", &content);
        let keys = Pages::new().with("ticket", Pages::pattern(80));
        certificate(keys.path());
        let (ticket, session) = (keys.file("ticket"), keys.file("session"));
        let (ticket, session) = (ticket.to_str().expect("plain"), session.to_str().expect("plain"));
        for version in ["-tls1_3", "-tls1_2"] {
            let server = start(&pages, keys.path(), &["--ticket-key", ticket]);
            let first = ask(s_client(&server).arguments([version, "-sess_out", session]));
            assert!(first.contains("New, TLS") && first.contains("few words"), "{first}");
            server.stop();
            let server = start(&pages, keys.path(), &["--ticket-key", ticket]);
            let second = ask(s_client(&server).arguments([version, "-sess_in", session]));
            assert!(second.contains("Reused, TLS") && second.contains("few words"), "{second}");
            server.stop();
        }

        // A certificate is replaced; a download that was begun goes on.
        let server = start(&pages, keys.path(), &[]);
        let shown = |server: &Server| {
            let said = ask(s_client(server).arguments(["-showcerts"]));
            said.split("-----").nth(2).map(str::to_owned).expect("a certificate")
        };
        let before = shown(&server);
        let trusted = keys.file("certificate.pem");
        let old = keys.file("old.pem");
        std::fs::copy(&trusted, &old).expect("copied");
        let url = server.url("/large.bin");
        let slow = ["-sS", "--max-time", "60", "--limit-rate", "6M", "--cacert", old.to_str().expect("plain"), &url];
        let download = Program::new("curl").arguments(slow).start();
        certificate(keys.path());
        // Readable for who serves, as an administrator would make it.
        Program::new("chmod").arguments(["644", keys.file("key.pem").to_str().expect("plain")]).succeeds();
        server.signal(Signal::HUP);
        eventually("the new certificate is shown", Duration::from_secs(10), || shown(&server) != before);
        assert_eq!(text(curl(keys.path(), &[&server.url("/")])), "few words");
        assert!(download.wait(Duration::from_secs(60)).stdout == content, "the download is whole");
        // One that can't be read: what was read before goes on.
        let now = shown(&server);
        std::fs::write(keys.file("certificate.pem"), "nothing").expect("written");
        server.signal(Signal::HUP);
        eventually("it is said", Duration::from_secs(10), || server.errors().contains("no certificate"));
        assert_eq!(shown(&server), now);
        let stopped = server.stop();
        assert_eq!((stopped.code, stopped.leaks()), (Some(0), vec![]));
    });
}

#[test]
fn only_clients_that_an_authority_vouches_for_are_served_if_that_is_asked_for() {
    scenario(|| {
        let pages = Pages::new().with("index.html", "few words");
        let (keys, of_client) = (Pages::new(), Pages::new());
        certificate(keys.path());
        let file = |name: &str| of_client.file(name).to_str().expect("plain").to_owned();
        let (authority, certificate, key) = (file("ca.pem"), file("certificate.pem"), file("key.pem"));
        of_client.write("extensions", "extendedKeyUsage=clientAuth");
        let new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
        let request =
            |more: &[&str]| Program::new("openssl").arguments(["req"]).arguments(new_key).arguments(more).succeeds();
        request(&["-x509", "-days", "2", "-subj", "/CN=authority", "-keyout", &file("ca-key.pem"), "-out", &authority]);
        request(&["-new", "-subj", "/CN=client", "-keyout", &key, "-out", &file("request")]);
        Program::new("openssl")
            .arguments(["x509", "-req", "-in", &file("request"), "-CA", &authority, "-CAkey", &file("ca-key.pem")])
            .arguments(["-days", "2", "-CAcreateserial", "-extfile", &file("extensions"), "-out", &certificate])
            .succeeds();
        let server = start(&pages, keys.path(), &["--client-ca", &authority, "--tls-minimum", "1.3"]);
        let with = ["--cert", &certificate, "--key", &key, &server.url("/")];
        assert_eq!(text(curl(keys.path(), &with)), "few words");
        let trusted = keys.file("certificate.pem");
        let url = server.url("/");
        // By HTTP/2 curl says more before it listens, and then, as a rule, that it could not.
        let without = ["-sS", "--http1.1", "--cacert", trusted.to_str().expect("plain"), &url];
        let refused = Program::new("curl").arguments(without).run();
        assert!(refused.stderr.contains("certificate required"), "{}", refused.stderr);
        let old = Program::new("curl").arguments(["--tls-max", "1.2"]).arguments(without).run();
        assert!(old.stderr.contains("protocol version"), "{}", old.stderr);
        server.stop();
    });
}

#[test]
fn what_can_not_be_used_is_named_before_anything_is_made() {
    scenario(|| {
        let pages = Pages::new();
        let keys = Pages::new().with("empty", "");
        certificate(keys.path());
        let file = |name: &str| keys.file(name).to_str().expect("plain").to_owned();
        let (chain, key, empty) = (file("certificate.pem"), file("key.pem"), file("empty"));
        for (arguments, expected) in [
            (vec!["--https", "--certificate", &empty, "--key", &key], "no certificate"),
            (vec!["--https", "--certificate", &chain, "--key", &empty], "no key"),
            (vec!["--https", "--certificate", &chain], "--key"),
            (vec!["--certificate", &chain, "--key", &key], "--https"),
            (vec!["--https", "--ticket-key", &empty], "80 random bytes"),
            (vec!["--https", "--app-cores", "2"], "qanat cert"),
        ] {
            let refused = Server::try_start(&[&[pages.argument()], arguments.as_slice()].concat());
            let message = refused.err().unwrap_or_else(|| panic!("{arguments:?} is taken"));
            assert!(message.contains(expected), "{arguments:?}: {message}");
        }
        let again = Program::new(qanat()).arguments(["cert", "--to", keys.argument()]).run();
        assert!(again.stderr.contains("--force"), "{}", again.stderr);
    });
}
