use super::*;
use std::fs;

fn rules() -> LookupRules {
    LookupRules {
        precompressed: true,
        object_bytes_max: 100,
        payload_bytes: 1448,
        reads_around: false,
        index: "index.html".to_owned(),
    }
}

fn look_up(root: &Root, path: &[u8], rules: &LookupRules, compress: bool) -> Found {
    let site = SiteRules { compress, ..SiteRules::default() };
    LookUp { root, path, rules, site: &site, now_seconds: 2_000_000_000 }.find()
}

fn status(root: &Root, path: &str) -> u16 {
    match look_up(root, path.as_bytes(), &rules(), false) {
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
    let Found::File(variants) = look_up(&root, b"a.html", &rules(), false) else { panic!() };
    assert!(variants[0].as_ref().unwrap().representation.varies);
    assert!(variants[1].is_none());
    assert_eq!(variants[2].as_ref().unwrap().representation.coding, Some("gzip"));
    assert!(matches!(variants[0].as_ref().unwrap().content, FoundContent::Prepared(_)));
    let Found::File(variants) = look_up(&root, b"big", &rules(), false) else { panic!() };
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

#[test]
fn text_is_compressed_when_it_is_read() {
    use std::io::Read;
    let directory = tempfile::tempdir().unwrap();
    let text = "the same again and again, ".repeat(400);
    for name in ["page.html", "photo.jpg", "own.html"] {
        fs::write(directory.path().join(name), &text).unwrap();
    }
    fs::write(directory.path().join("short.html"), "short").unwrap();
    fs::write(directory.path().join("own.html.gz"), "as it was made").unwrap();
    let mut random = 1u64;
    let noise = (0..9_000).map(|_| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 56) as u8
    });
    fs::write(directory.path().join("noise.txt"), noise.collect::<Vec<u8>>()).unwrap();
    let root = Root::open(directory.path()).unwrap();
    let rules = LookupRules { object_bytes_max: 1 << 20, ..rules() };
    let found = |name: &str, compress| match look_up(&root, name.as_bytes(), &rules, compress) {
        Found::File(variants) => *variants,
        _ => panic!("{name}"),
    };
    let body = |variant: &FoundVariant| match &variant.content {
        FoundContent::Prepared(bytes) => bytes.body().to_vec(),
        FoundContent::Opened(_) => panic!(),
    };
    let [plain, brotli, gzip] = found("page.html", true).map(Option::unwrap);
    assert_eq!(body(&plain), text.as_bytes());
    let mut opened = String::new();
    flate2::read::GzDecoder::new(body(&gzip).as_slice()).read_to_string(&mut opened).unwrap();
    assert_eq!(opened, text);
    let mut opened = Vec::new();
    brotli::BrotliDecompress(&mut body(&brotli).as_slice(), &mut opened).unwrap();
    assert_eq!(opened, text.as_bytes());
    let etags = [&plain, &brotli, &gzip].map(|variant| variant.representation.etag.clone());
    assert!(etags[1].ends_with("-br\"") && etags[2].ends_with("-gzip\"") && !etags[0].contains("br"), "{etags:?}");
    assert!(plain.representation.varies && gzip.representation.varies && gzip.size < 300);
    let made = |name, compress| found(name, compress).iter().flatten().count();
    assert_eq!((made("page.html", false), made("photo.jpg", true), made("short.html", true)), (1, 1, 1));
    assert_eq!(made("noise.txt", true), 1, "what gets no shorter stays as it is");
    let own = found("own.html", true);
    assert_eq!(body(own[2].as_ref().unwrap()), b"as it was made");
    assert!(own[1].is_some());
}
