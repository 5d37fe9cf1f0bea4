use super::*;
use std::fs;

fn rules() -> LookupRules {
    LookupRules {
        precompressed: true,
        object_bytes_max: 100,
        payload_bytes: 1448,
        reads_around: false,
        cache_control: None,
        common: String::new(),
        index: "index.html".to_owned(),
        listing: None,
    }
}

fn status(root: &Root, path: &str) -> u16 {
    match look_up(root, path.as_bytes(), &rules(), 2_000_000_000) {
        Found::Missing(status) => status,
        Found::Directory => 301,
        Found::File(_) => 200,
    }
}

#[test]
fn look_ups_stay_inside() {
    let directory = tempfile::tempdir().unwrap();
    let outside = directory.path().join("secret");
    fs::write(&outside, "secret").unwrap();
    let site = directory.path().join("site");
    fs::create_dir_all(site.join("sub")).unwrap();
    fs::write(site.join("a.html"), "hello").unwrap();
    fs::write(site.join("a.html.gz"), "zip").unwrap();
    fs::write(site.join("big"), vec![1; 101]).unwrap();
    std::os::unix::fs::symlink("a.html", site.join("inside")).unwrap();
    std::os::unix::fs::symlink(&outside, site.join("absolute")).unwrap();
    std::os::unix::fs::symlink("../secret", site.join("relative")).unwrap();
    std::os::unix::fs::symlink("loop", site.join("loop")).unwrap();
    std::os::unix::fs::symlink("/proc/self/fd/0", site.join("magic")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        site.join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let root = Root::open(&site).unwrap();
    for (path, expected) in [
        ("a.html", 200),
        ("inside", 200),
        ("sub", 301),
        ("big", 200),
        ("nothing", 404),
        ("a.html/x", 404),
        ("absolute", 403),
        ("relative", 403),
        ("magic", 403),
        ("loop", 404),
        ("pipe", 403),
        (&"x".repeat(300), 404),
    ] {
        assert_eq!(status(&root, path), expected, "{path}");
    }
    let Found::File(variants) = look_up(&root, b"a.html", &rules(), 2_000_000_000) else { panic!() };
    assert!(variants[0].as_ref().unwrap().representation.varies);
    assert!(variants[1].is_none());
    assert_eq!(variants[2].as_ref().unwrap().representation.coding, Some("gzip"));
    assert!(matches!(variants[0].as_ref().unwrap().content, FoundContent::Prepared(_)));
    let Found::File(variants) = look_up(&root, b"big", &rules(), 2_000_000_000) else { panic!() };
    assert!(matches!(variants[0].as_ref().unwrap().content, FoundContent::Opened(_)));
    assert!(Root::open(&outside).is_err());
    assert!(Root::open(Path::new("/nonexistent/x")).is_err());
}

/// Without `openat2` nothing gets out either; links are refused altogether.
#[test]
fn stepwise_look_ups_stay_inside() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("secret"), "secret").unwrap();
    let site = directory.path().join("site");
    fs::create_dir_all(site.join("sub/deep")).unwrap();
    fs::write(site.join("sub/deep/file"), "x").unwrap();
    std::os::unix::fs::symlink("sub", site.join("link")).unwrap();
    std::os::unix::fs::symlink("../secret", site.join("out")).unwrap();
    let root = Root::open(&site).unwrap();
    let open = |path: &str| root.open_stepwise(path.as_bytes(), OFlags::RDONLY | OFlags::CLOEXEC).map(|_| ());
    assert_eq!(open("sub/deep/file"), Ok(()));
    assert_eq!(open("out"), Err(Errno::LOOP));
    assert!(open("link/deep/file").is_err());
    assert_eq!(open("../secret"), Err(Errno::XDEV));
    assert_eq!(open("sub/none"), Err(Errno::NOENT));
    assert_eq!(open(""), Err(Errno::INVAL));
}
