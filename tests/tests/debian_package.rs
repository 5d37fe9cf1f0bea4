//! The Debian package (`make package`), and the OCI image of it (`make image`): in a clean Debian 12 it is installed with nothing but what it asks for, its services and `qanat run`
//! work there, its symbols lie apart, and nothing is left when it is purged.
#![forbid(unsafe_code)]

use qanat_tests::e2e::{Program, Running, eventually, is_root, native_library, qanat, scenario, workspace};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

/// For what asks Debian's archive, and for the packing.
const LONG: Duration = Duration::from_secs(900);
const GRACE: Duration = Duration::from_secs(30);

/// The two packages, made once of the program that is tested.
fn made() -> &'static [PathBuf; 2] {
    static MADE: OnceLock<[PathBuf; 2]> = OnceLock::new();
    MADE.get_or_init(|| make(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("packages")))
}

fn make(directory: &Path) -> [PathBuf; 2] {
    let cargo = std::env::var("CARGO").unwrap_or_default();
    let path = format!(
        "{}:{}",
        Path::new(&cargo).parent().unwrap_or(Path::new("")).display(),
        std::env::var("PATH").unwrap_or_default()
    );
    Program::new(workspace().join("tools/package"))
        .arguments([directory])
        .environment("PATH", path)
        .environment("QANAT", qanat())
        .environment("LIBRARY", qanat().with_file_name("libqanat_posix.so"))
        .environment("NATIVE", native_library())
        .patience(LONG)
        .succeeds();
    let version = Program::new(qanat()).arguments(["--version"]).succeeds().text();
    let version = version.split(' ').nth(1).expect("a version").to_owned();
    ["qanat", "qanat-dbgsym"].map(|name| directory.join(format!("{name}_{version}_amd64.deb")))
}

/// A Debian 12 of nothing but `apt` and what it needs.
fn debian(root: &Path, package: &Path) {
    let copied = format!("copy-in {} /srv", package.display());
    Program::new("mmdebstrap")
        .arguments(["--quiet", "--variant=apt", &format!("--customize-hook={copied}")])
        // With the lists that the package's dependencies are found by.
        .arguments(["--skip=cleanup/apt/lists", "bookworm"])
        .arguments([root])
        .arguments(["http://deb.debian.org/debian"])
        .patience(LONG)
        .succeeds();
}

/// A command within the root, with the file systems that a machine or a container gives it.
fn within(root: &Path, words: &[&str]) -> Program {
    const ENTER: &str = "set -e; root=$1; shift; mount --rbind /dev \"$root/dev\"; mount -t proc proc \"$root/proc\"; \
        mount -t sysfs sysfs \"$root/sys\"; mount -t tmpfs tmpfs \"$root/run\"; \
        exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive chroot \"$root\" \"$@\"";
    let program = Program::new("unshare").arguments(["--mount", "--propagation", "private", "--", "sh", "-c", ENTER]);
    program.arguments(["sh"]).arguments([root]).arguments(words).patience(LONG)
}

/// All files, but those by which the package manager remembers what it did.
fn files(root: &Path) -> BTreeSet<String> {
    let remembered =
        ["./var/lib/dpkg/", "./var/lib/apt/", "./var/cache/", "./var/log/", "./etc/group-", "./etc/gshadow-"];
    let found = Program::new("find").directory(root).arguments([".", "-xdev"]).succeeds().text();
    let kept = found.lines().filter(|line| !remembered.iter().any(|place| line.starts_with(place)));
    kept.map(str::to_owned).collect()
}

fn sections(file: &Path) -> String {
    Program::new("readelf").arguments(["--sections", "--notes", "--wide"]).arguments([file]).succeeds().text()
}

#[test]
fn the_package_is_installed_used_and_purged_in_a_clean_debian() {
    let place = tempfile::tempdir().expect("a directory");
    let root = place.path().join("root");
    if is_root() {
        let [package, symbols] = made();
        debian(&root, package);
        let listed = Program::new("dpkg-deb").arguments(["--contents"]).arguments([symbols]).succeeds().text();
        let name = package.file_name().expect("a name").to_string_lossy().into_owned();
        let before = files(&root);
        within(&root, &["apt-get", "install", "--yes", &format!("/srv/{name}")]).succeeds();
        for file in ["usr/bin/qanat", "usr/lib/qanat/libqanat.so", "usr/lib/libqanat-native.so.1"] {
            let sections = sections(&root.join(file));
            assert!(!sections.contains(".debug_info") && !sections.contains(".symtab"), "{file}: {sections}");
            let (_, identifier) = sections.split_once("Build ID: ").expect("its identifier");
            let identifier = identifier.split_whitespace().next().expect("its identifier");
            let debug = format!("/usr/lib/debug/.build-id/{}/{}.debug", &identifier[..2], &identifier[2..]);
            assert!(listed.contains(&debug), "{debug}: {listed}");
        }
        let licences = std::fs::read_to_string(root.join("usr/share/doc/qanat/copyright")).expect("the licences");
        assert!(licences.lines().any(|line| line.starts_with("rustls v") && line.contains("MIT")), "{licences}");
        works(&root);
        let known = within(&root, &["ldconfig", "--print-cache"]).succeeds().text();
        assert!(known.contains("libqanat-native.so.1 (libc6"), "{known}");
        let policy = root.join("etc/qanat/qanat.toml");
        let mine = std::fs::read_to_string(&policy).expect("the policy") + "# mine\n";
        std::fs::write(&policy, &mine).expect("written");
        within(&root, &["dpkg", "--install", &format!("/srv/{name}")]).succeeds();
        assert_eq!(std::fs::read_to_string(&policy).expect("the policy"), mine, "it is the administrator's");
        within(&root, &["apt-get", "purge", "--yes", "--autoremove", "qanat"]).succeeds();
        let after = files(&root);
        assert_eq!(after, before, "left behind, or taken away");
        let group = std::fs::read_to_string(root.join("etc/group")).expect("the groups");
        assert!(!group.contains("qanat"), "{group}");
    } else {
        // It says so, and fails where root is required.
        scenario(|| ());
    }
}

/// A server of ours, and one that knows nothing of it.
fn works(root: &Path) {
    scenario(|| {
        let group = std::fs::read_to_string(root.join("etc/group")).expect("the groups");
        assert!(group.lines().any(|line| line.starts_with("qanat:")), "{group}");
        let ask =
            |path: &str| Program::new("curl").arguments(["--silent", &format!("http://10.77.0.2{path}")]).run().text();
        let web = within(root, &["qanat", "web", "/usr/share/doc/qanat"]).start();
        eventually("qanat web serves", GRACE, || ask("/copyright").contains("aws-lc-rs"));
        let process = i32::try_from(web.id()).ok().and_then(Pid::from_raw).expect("a process");
        kill_process(process, Signal::INT).expect("told to end");
        let ended = web.wait(GRACE);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let server = "use IO::Socket::INET; my $l = IO::Socket::INET->new(LocalPort => 80, Listen => 8, ReuseAddr => 1) or die; \
            while (my $c = $l->accept) { <$c>; print $c \"HTTP/1.0 200 OK\\r\\n\\r\\nby perl, \", grep(/libqanat/, `cat /proc/$$/maps`) ? 'with' : 'without', \" it\\n\"; close $c }";
        let mut perl = within(root, &["qanat", "run", "--", "perl", "-e", server]).start();
        eventually("a program that knows nothing of it serves", GRACE, || ask("/") == "by perl, with it\n");
        perl.kill();
    });
}

/// The image of the package, as a bundle for a runtime.
fn unpacked(place: &Path) -> PathBuf {
    let [package, _] = made();
    let (image, bundle) = (place.join("image"), place.join("bundle"));
    Program::new(workspace().join("tools/image")).arguments([package, &image]).patience(LONG).succeeds();
    let tag = format!("{}:latest", image.display());
    Program::new("umoci").arguments(["unpack", "--image", &tag]).arguments([&bundle]).patience(LONG).succeeds();
    bundle
}

/// What a container is given.
struct Given<'a> {
    words: &'a [&'a str],
    user: u32,
    groups: &'a [u32],
    capabilities: &'a [&'a str],
    /// It has a network of its own, with nothing in it.
    is_apart: bool,
    /// What of the machine's is there, too.
    mounts: &'a [&'a str],
}

/// Runs a container.
fn container(bundle: &Path, given: &Given<'_>) -> Running {
    let file = bundle.join("config.json");
    let text = std::fs::read_to_string(&file).expect("a configuration");
    let mut config: Value = serde_json::from_str(&text).expect("a configuration");
    let process = &mut config["process"];
    process["terminal"] = json!(false);
    process["args"] = json!(given.words);
    process["user"] = json!({ "uid": given.user, "gid": given.user, "additionalGids": given.groups });
    let all: Vec<String> = given.capabilities.iter().map(|name| format!("CAP_{name}")).collect();
    process["capabilities"] = json!({ "bounding": all, "effective": all, "permitted": all });
    if let Some(process) = process.as_object_mut() {
        process.remove("rlimits");
    }
    config["root"]["readonly"] = json!(true);
    if let Some(namespaces) = config["linux"]["namespaces"].as_array_mut() {
        namespaces.retain(|namespace| namespace["type"] != "network");
        namespaces.extend(given.is_apart.then(|| json!({ "type": "network" })));
    }
    if let Some(mounts) = config["mounts"].as_array_mut() {
        mounts.retain(|mount| !given.mounts.iter().any(|place| mount["destination"] == *place));
        let bind =
            |place: &&str| json!({ "destination": place, "source": place, "type": "bind", "options": ["rbind", "rw"] });
        mounts.extend(given.mounts.iter().map(bind));
    }
    std::fs::write(&file, config.to_string()).expect("written");
    let state = bundle.with_file_name("state");
    let words = ["run", "--bundle"];
    Program::new("runc")
        .arguments(["--root"])
        .arguments([state])
        .arguments(words)
        .arguments([bundle])
        .arguments(["tested"])
        .start()
}

fn ask(path: &str) -> String {
    Program::new("curl").arguments(["--silent", "--max-time", "5", path]).run().text()
}

fn ends(container: Running) {
    let process = i32::try_from(container.id()).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(process, Signal::TERM).expect("told to end");
    let ended = container.wait(GRACE);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

#[test]
fn the_image_serves_with_no_capability_by_the_kernel_or_the_daemon_and_with_a_card_of_its_own() {
    let place = tempfile::tempdir().expect("a directory");
    if !is_root() {
        // It says so, and fails where root is required.
        return scenario(|| ());
    }
    let bundle = unpacked(place.path());
    scenario(|| {
        let served = "/usr/share/doc/qanat";
        let over_kernel = ["qanat", "web", served, "--placement", "kernel", "--port", "8080"];
        let nothing =
            Given { words: &over_kernel, user: 1_000, groups: &[], capabilities: &[], is_apart: false, mounts: &[] };
        let web = container(&bundle, &nothing);
        eventually("by the kernel", GRACE, || ask("http://127.0.0.1:8080/copyright").contains("aws-lc-rs"));
        ends(web);

        // The daemon is the machine's; who may ask it is in the group of its socket.
        let sockets = place.path().join("sockets");
        std::fs::create_dir(&sockets).expect("a directory");
        let socket = sockets.join("control.sock").display().to_string();
        let policy = place.path().join("policy.toml");
        let rules = "group = \"nogroup\"\n[[rule]]\nname = \"containers\"\ngroups = [\"nogroup\"]\n\
            addresses = [\"10.77.0.0/24\"]\nservices = [\"any\"]\n";
        std::fs::write(&policy, rules).expect("written");
        let config = policy.display().to_string();
        let mut daemon = Program::new(qanat()).arguments(["up", "--config", &config, "--socket", &socket]).start();
        eventually("the daemon is up", GRACE, || {
            Program::new(qanat()).arguments(["status"]).environment("QANAT_SOCKET", &socket).run().code == Some(0)
        });
        let sockets = sockets.display().to_string();
        let variable = format!("QANAT_SOCKET={socket}");
        let by_daemon = ["env", &variable, "qanat", "web", served];
        let asks = Given { words: &by_daemon, groups: &[65_534], is_apart: true, mounts: &[&sockets], ..nothing };
        let web = container(&bundle, &asks);
        eventually("by the daemon", GRACE, || ask("http://10.77.0.2/copyright").contains("aws-lc-rs"));
        ends(web);
        daemon.kill();

        let own = ["NET_ADMIN", "NET_RAW", "BPF", "SYS_ADMIN", "SETUID", "SETGID"];
        let words = ["qanat", "web", served];
        let mounts = ["/dev/net/tun", "/sys/fs/bpf"];
        let web = container(&bundle, &Given { words: &words, user: 0, capabilities: &own, mounts: &mounts, ..nothing });
        eventually("by a card of its own", GRACE, || ask("http://10.77.0.2/copyright").contains("aws-lc-rs"));
        ends(web);
    });
}
