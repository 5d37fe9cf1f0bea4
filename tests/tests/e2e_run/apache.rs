//! Apache, whose event MPM has one thread wait and others answer: connections are taken out of `epoll` by the one and put back by the others.

use super::{OURS, PATIENCE, ends, run};
use qanat_tests::e2e::{NOBODY, Pages, Program, Running, eventually, scenario};
use rustix::process::Signal;
use std::net::TcpStream;
use std::path::Path;

const REQUESTS: &str = "20000";

/// A master and workers of user `www-data`, if there is a right to change.
fn configuration(directory: &Path, site: &Pages, port: u16) -> String {
    let (at, modules) = (directory.display(), "/usr/lib/apache2/modules");
    format!(
        "ServerRoot {at}\nServerName qanat.test\nListen {OURS}:{port}\nPidFile {at}/pid\nMutex file:{at}\nErrorLog {at}/errors\n\
         LoadModule mpm_event_module {modules}/mod_mpm_event.so\nLoadModule authz_core_module {modules}/mod_authz_core.so\n\
         LoadModule dir_module {modules}/mod_dir.so\n\
         StartServers 2\nThreadsPerChild 25\nMaxRequestWorkers 100\nKeepAlive On\nMaxKeepAliveRequests 100\n\
         User www-data\nGroup www-data\nDocumentRoot {site}\n<Directory {site}>\nRequire all granted\n</Directory>\n",
        site = site.argument()
    )
}

fn for_everybody(directory: &Path) {
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(directory, open).expect("its mode");
}

fn is_answered(port: u16) -> bool {
    TcpStream::connect((OURS, port)).is_ok()
}

/// How many of the requests may meet a connection that Apache was closing: its event MPM ends kept connections when it is short of threads,
/// and the request that crosses with the end is reset. On the kernel's sockets one run in ten has such requests, up to eight of them.
const CROSSED_MAX: u32 = 200;

/// Connections that are closed after each hundredth request, by 50 clients of the kernel's.
fn load(port: u16) {
    let url = format!("http://{OURS}:{port}/index.html");
    // -r: a connection that is reset is counted, and is not the end.
    let said = Program::new("ab").arguments(["-q", "-r", "-k", "-c", "50", "-n", REQUESTS, &url]).succeeds().text();
    let of = |name: &str| said.lines().find_map(|line| line.strip_prefix(name)).map(str::trim).unwrap_or("none");
    assert_eq!(of("Complete requests:"), REQUESTS, "{said}");
    // What failed by its length is an answer whose end and the connection's came apart: `ab` counts some of the kernel's, too.
    let failures = said.lines().find(|line| line.contains("(Connect:")).unwrap_or_default();
    let count = |kind: &str| {
        let rest = failures.split_once(kind).map_or("0", |(_, rest)| rest);
        rest.split([',', ')']).next().and_then(|number| number.trim().parse::<u32>().ok()).expect("a number")
    };
    let crossed = count("Receive:") + count("Exceptions:");
    assert!(count("Connect:") == 0 && crossed <= CROSSED_MAX && !said.contains("Non-2xx"), "{said}");
}

/// Serves with its files in `at`, and `directory` the daemon's.
fn serves(directory: &Path, at: &Path, server: Running, port: u16) {
    eventually("Apache listens", PATIENCE, || is_answered(port));
    load(port);
    // A graceful stop. By SIGTERM Apache's children close the sockets of workers that may have ended: on the kernel's sockets, too,
    // one stop in a hundred ends by a segmentation fault there (`close_worker_sockets` of 2.4.71).
    let said = ends(server, Signal::WINCH, directory);
    let errors = std::fs::read_to_string(at.join("errors")).expect("its log");
    assert!(!errors.contains("unexpected state") && !errors.contains("exit signal"), "{errors}");
    assert!(said.contains("ours"), "{said}");
}

#[test]
fn apache_with_its_event_mpm_serves_as_root_and_as_nobody() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let site = Pages::new().with("index.html", "It flows.\n".repeat(100));
        for_everybody(directory.path());
        for_everybody(site.path());
        for (port, before) in [(80, &[][..]), (8_080, &[&["setpriv"], &NOBODY[..]].concat())] {
            // Each has files of its own: root's are not for others to write.
            let at = directory.path().join(port.to_string());
            std::fs::create_dir(&at).expect("a directory");
            for_everybody(&at);
            let file = at.join("httpd.conf");
            std::fs::write(&file, configuration(&at, &site, port)).expect("a file");
            let words = [before, &["apache2", "-f", file.to_str().expect("a plain name"), "-DFOREGROUND"]].concat();
            let server = run(directory.path(), &words).directory(&at).start();
            serves(directory.path(), &at, server, port);
        }
    });
}
