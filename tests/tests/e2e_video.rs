//! `qanat video` as its users run it: films are cut, stored, served to curl, ffmpeg and a browser, and what is wrong with a disk concerns
//! nobody but who asked for it.
#![forbid(unsafe_code)]

use qanat_tests::e2e::{PATIENCE, Pages, Program, Server, chromium, eventually, qanat, scenario};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes that no piece divides.
const LARGE_BYTES: usize = 12_345_678;

/// A film of a few seconds, with picture and sound.
fn film(folder: &Pages, seconds: u32) -> String {
    let path = folder.file("film.mp4").display().to_string();
    let (picture, sound) =
        (format!("testsrc2=size=320x180:rate=25:duration={seconds}"), format!("sine=duration={seconds}"));
    let inputs = ["-v", "error", "-f", "lavfi", "-i", &picture, "-f", "lavfi", "-i", &sound];
    let codecs = ["-c:v", "libx264", "-preset", "ultrafast", "-g", "50", "-c:a", "aac", &path];
    Program::new("ffmpeg").arguments(inputs).arguments(codecs).patience(PATIENCE).succeeds();
    path
}

fn video(disk: &str, words: &[&str]) -> Program {
    Program::new(qanat()).arguments(["video", "--disk", disk]).arguments(words).patience(PATIENCE)
}

fn serve(disk: &str, more: &[&str]) -> Server {
    Server::try_start_as("video", &[&["--disk", disk], more].concat()).unwrap_or_else(|error| panic!("{error}"))
}

fn curl(words: &[&str]) -> Vec<u8> {
    Program::new("curl").arguments(["-sk", "--max-time", "60"]).arguments(words).patience(PATIENCE).succeeds().stdout
}

fn json(program: Program) -> Value {
    serde_json::from_slice(&program.succeeds().stdout).expect("JSON")
}

/// A disk with a large object and a page, of which both are known.
fn disk_with(folder: &Pages, name: &str) -> (String, Vec<u8>) {
    let large = Pages::pattern(LARGE_BYTES);
    folder.write("cut/large.bin", &large);
    folder.write("cut/sub/master.m3u8", "#EXTM3U\n#EXTINF:1,\n../large.bin\n");
    let disk = folder.file(name).display().to_string();
    video(&disk, &["add", &folder.file("cut").display().to_string(), "--size", "64M"]).succeeds();
    (disk, large)
}

#[test]
fn films_are_added_listed_checked_and_removed() {
    scenario(|| {
        let folder = Pages::new();
        let film = film(&folder, 6);
        let disk = folder.file("films.img").display().to_string();
        video(&disk, &["add", &film, "--size", "64M"]).succeeds();
        video(&disk, &["add", &film, "--name", "two", "--quality", "90:100", "--quality", "180:300", "--segment", "2"])
            .succeeds();
        let listed = json(video(&disk, &["list", "--json"]));
        let names: Vec<&str> =
            listed["films"].as_array().expect("films").iter().filter_map(|it| it["name"].as_str()).collect();
        assert_eq!(names, ["film", "two"], "{listed}");
        for film in 0..2 {
            assert_eq!(
                (&listed["films"][film]["has_hls"], &listed["films"][film]["has_dash"]),
                (&true.into(), &true.into())
            );
        }
        let said = video(&disk, &["add", &film]).run();
        assert!(said.code == Some(1) && said.stderr.contains("there is a film \"film\" already"), "{}", said.stderr);
        let said = video(&disk, &["add", &film, "--name", "../x"]).run();
        assert!(said.code == Some(1) && said.stderr.contains("can't be a film's name"), "{}", said.stderr);
        folder.write("no.mp4", "this is no film");
        let said = video(&disk, &["add", &folder.file("no.mp4").display().to_string()]).run();
        assert!(said.code == Some(1) && said.stderr.contains("no film that ffmpeg knows"), "{}", said.stderr);
        let said = video(&disk, &["remove", "three"]).run();
        assert!(said.code == Some(1) && said.stderr.contains("there is no film \"three\""), "{}", said.stderr);
        let checked = json(video(&disk, &["check", "--json"]));
        assert_eq!((&checked["is_whole"], &checked["wrong"]), (&true.into(), &0.into()), "{checked}");
        video(&disk, &["remove", "film"]).succeeds();
        let free = json(video(&disk, &["list", "--json"]))["free_bytes"].as_u64();
        // What does not fit leaves nothing behind.
        folder.write("cut/small.m4s", "small");
        std::fs::File::create(folder.file("cut/huge.m4s")).and_then(|file| file.set_len(100 << 20)).expect("a file");
        let said = video(&disk, &["add", &folder.file("cut").display().to_string(), "--name", "huge"]).run();
        assert_eq!(said.code, Some(1), "{}", said.stderr);
        let listed = json(video(&disk, &["list", "--json"]));
        assert_eq!(
            (listed["films"].as_array().map(Vec::len), listed["free_bytes"].as_u64()),
            (Some(1), free),
            "{listed}"
        );
        // A manifest that names what is not there.
        std::fs::remove_file(folder.file("cut/huge.m4s")).expect("a file");
        folder.write("cut/master.m3u8", "#EXTM3U\n#EXTINF:4,\nsmall.m4s\n#EXTINF:4,\nmissing.m4s\n");
        video(&disk, &["add", &folder.file("cut").display().to_string(), "--name", "half"]).succeeds();
        let said = video(&disk, &["check"]).run();
        assert!(
            said.code == Some(1) && said.text().contains("it names missing.m4s, which is not there"),
            "{}",
            said.text()
        );
    });
}

/// All that is asked for comes as it is, in all the ways in which it can be asked for.
fn serves(scheme: &str, more: &[&str]) {
    let folder = Pages::new();
    let (disk, large) = disk_with(&folder, "films.img");
    let film = film(&folder, 6);
    video(&disk, &["add", &film]).succeeds();
    let mut server = serve(&disk, &[&["--memory", "4"], more].concat());
    let url = |path: &str| server.url(path);
    assert!(url("/").starts_with(scheme), "{}", url("/"));
    let versions: &[&str] = if scheme == "https" { &["--http1.1", "--http2"] } else { &["--http1.1"] };
    for version in versions {
        assert!(curl(&[version, &url("/cut/large.bin")]) == large, "{version}");
        for (range, first, end) in
            [("0-0", 0, 1), ("16380-16390", 16_380, 16_391), ("-5", LARGE_BYTES - 5, LARGE_BYTES)]
        {
            assert_eq!(curl(&[version, "-r", range, &url("/cut/large.bin")]), large[first..end], "{version} {range}");
        }
        let head = String::from_utf8(curl(&[version, "-I", &url("/cut/large.bin")])).expect("a head").to_lowercase();
        assert!(
            head.contains(&format!("content-length: {LARGE_BYTES}")) && head.contains("accept-ranges: bytes"),
            "{head}"
        );
        assert!(head.contains("access-control-allow-origin: *"), "{head}");
        let tag = head.lines().find_map(|line| line.strip_prefix("etag: ")).expect("a tag").to_owned();
        let same =
            ["-o", "/dev/null", "-w", "%{http_code}", "-H", &format!("If-None-Match: {tag}"), &url("/cut/large.bin")];
        assert_eq!(curl(&[&[*version], same.as_slice()].concat()), b"304");
        let asked = String::from_utf8(curl(&[version, "-i", "-X", "OPTIONS", &url("/cut/large.bin")])).expect("a head");
        assert!(asked.to_lowercase().contains("access-control-allow-methods: get, head, options"), "{asked}");
        assert_eq!(curl(&[version, "-o", "/dev/null", "-w", "%{http_code}", &url("/cut/nothing")]), b"404");
        assert_eq!(
            curl(&[version, "-o", "/dev/null", "-w", "%{http_code} %{redirect_url}", &url("/cut/sub")]),
            format!("301 {}", url("/cut/sub/")).as_bytes()
        );
    }
    let list = String::from_utf8(curl(&[&url("/")])).expect("a page");
    assert!(list.contains("<a href=\"cut/\">") && list.contains("<a href=\"film/\">"), "{list}");
    let page = String::from_utf8(curl(&[&url("/film/")])).expect("a page");
    assert!(
        page.contains("<video") && String::from_utf8_lossy(&curl(&[&url("/player.js")])).contains("MediaSource"),
        "{page}"
    );
    // Many at once, more than there is memory for.
    let (large_url, got) = (url("/cut/large.bin"), folder.file("got.#1"));
    let many = format!("{large_url}?[1-40]");
    curl(&["--parallel", "--parallel-max", "40", "-o", &got.display().to_string(), &many]);
    for number in 1..=40 {
        assert!(std::fs::read(folder.file(&format!("got.{number}"))).expect("a file") == large, "{number}");
    }
    // A player, of both kinds of manifests, reads all of the film.
    for manifest in ["/film/master.m3u8", "/film/manifest.mpd"] {
        let address = url(manifest);
        let how = ["-nostdin", "-v", "error", "-progress", "pipe:1", "-i", &address, "-f", "null", "-"];
        let played = Program::new("ffmpeg").arguments(how).patience(PATIENCE).succeeds();
        let frames: Vec<u32> =
            played.text().lines().filter_map(|line| line.strip_prefix("frame=")?.trim().parse().ok()).collect();
        assert_eq!(frames.last(), Some(&150), "{manifest}: {}", played.stderr);
    }
    let figures = server.figures_when("nothing is sent any more", |figures| {
        (&figures["video"]["streams"], &figures["video"]["windows_in_use"]) == (&0.into(), &0.into())
    });
    assert_eq!(figures["video"]["stream_errors"], 0, "{figures}");
    assert!(
        figures["video"]["piece_bytes_read"].as_u64() > Some(40 * LARGE_BYTES as u64),
        "nothing is cached: {figures}"
    );
    let stopped = server.stop();
    assert_eq!(stopped.code, Some(0));
    assert_eq!(json(video(&disk, &["check", "--json"]))["is_whole"], true);
}

#[test]
fn plain_linked() {
    scenario(|| serves("http", &[]));
}

#[test]
fn encrypted_linked() {
    scenario(|| serves("https", &["--https"]));
}

#[test]
fn plain_split() {
    scenario(|| serves("http", &["--placement", "split"]));
}

#[test]
fn encrypted_split() {
    scenario(|| serves("https", &["--https", "--placement", "split"]));
}

/// Changes one byte of what is stored, on the disk.
fn rot(disk: &str, large: &[u8], at: usize) {
    let image = std::fs::OpenOptions::new().read(true).write(true).open(disk).expect("the disk");
    let bytes = std::fs::read(disk).expect("the disk");
    // What is there is aligned: no need to look everywhere.
    let place = (0..bytes.len()).step_by(4_096).find(|place| bytes[*place..].starts_with(&large[..65_536]));
    let place = place.expect("the object lies in one piece") as u64 + at as u64;
    image.write_all_at(&[!large[at]], place).expect("a byte");
}

#[test]
fn rot_ends_one_answer_and_no_other() {
    scenario(|| {
        let folder = Pages::new();
        let (disk, large) = disk_with(&folder, "films.img");
        rot(&disk, &large, 5_000_000);
        let mut server = serve(&disk, &["--https"]);
        let url = server.url("/cut/large.bin");
        let cut = Program::new("curl").arguments(["-sk", "--http1.1", &url]).patience(PATIENCE).run();
        assert!(
            cut.code != Some(0) && cut.stdout.len() < 5_000_000 && large.starts_with(&cut.stdout),
            "{:?}",
            cut.code
        );
        assert_eq!(curl(&["-r", "6000000-7000000", &url]), large[6_000_000..=7_000_000]);
        let figures = server.figures_when("it is counted", |figures| figures["video"]["stream_errors"] == 1);
        assert_eq!(figures["video"]["streams"], 0, "{figures}");
        let note = server.said("note", PATIENCE, |note| note.to_string().contains("not what was written"));
        assert!(note.to_string().contains("the library"), "{note}");
        assert_eq!(server.stop().code, Some(0));
        let said = video(&disk, &["check"]).run();
        assert!(said.code == Some(1) && said.text().contains("cut/large.bin: "), "{}", said.text());
    });
}

#[test]
fn clients_that_ask_and_never_read_leave_memory_for_others() {
    scenario(|| {
        let folder = Pages::new();
        let (disk, large) = disk_with(&folder, "films.img");
        let mut server = serve(&disk, &["--memory", "4"]);
        let address = server.address();
        let mut idle: Vec<TcpStream> = (0..200)
            .map(|number| {
                let mut stream = TcpStream::connect(address).expect("a connection");
                write!(stream, "GET /cut/large.bin HTTP/1.1\r\nHost: x\r\nRange: bytes={number}-\r\n\r\n")
                    .expect("a request");
                stream
            })
            .collect();
        let figures = server
            .figures_when("they hold what they may", |figures| figures["video"]["windows_in_use"].as_u64() > Some(100));
        assert!(figures["video"]["windows_in_use"].as_u64() <= Some(256), "{figures}");
        // One of those who wait is served when others are gone.
        let mut last = idle.pop().expect("a connection");
        drop(idle);
        let mut got = Vec::new();
        last.set_read_timeout(Some(PATIENCE)).expect("a limit");
        let mut part = [0; 65_536];
        while got.len() < LARGE_BYTES - 199 {
            let count = last.read(&mut part).expect("more");
            assert!(count > 0, "it ended after {}", got.len());
            got.extend_from_slice(&part[..count]);
        }
        assert!(got.ends_with(&large[LARGE_BYTES - 1_000_000..]));
        drop(last);
        server.figures_when("all of it is back", |figures| figures["video"]["windows_in_use"] == 0);
        assert_eq!(server.stop().code, Some(0));
    });
}

/// Plays a film, and tells what it saw by requests that the access log shows.
const PAGE: &str = r#"<!doctype html><html><head><meta charset="utf-8"><title>Test</title></head><body>
<video id="film" muted></video><small id="state"></small><script src="../player.js"></script><script>{
const say = (line) => fetch("saw/" + line.replaceAll(" ", "_")).catch(() => {});
const film = document.getElementById("film");
let stalls = 0, begun = false;
film.addEventListener("waiting", () => { if (begun) stalls++; });
film.addEventListener("playing", () => { begun = true; });
film.addEventListener("canplay", () => film.play(), { once: true });
film.addEventListener("ended", () => {
  const { totalVideoFrames, droppedVideoFrames } = film.getVideoPlaybackQuality();
  say(`ended at ${Math.round(film.currentTime)} frames ${totalVideoFrames} dropped ${droppedVideoFrames} stalls ${stalls}`);
});
film.addEventListener("error", () => say("error " + film.error.message));
setInterval(() => say(`at ${Math.round(film.currentTime)} state ${document.getElementById("state").textContent}`), 2000);
}</script></body></html>"#;

#[test]
fn a_browser_plays_a_film_to_its_end() {
    scenario(|| {
        let folder = Pages::new();
        let film = film(&folder, 8);
        let disk = folder.file("films.img").display().to_string();
        let ladder = ["--quality", "90:60", "--quality", "180:400", "--segment", "2", "--size", "64M"];
        video(&disk, &[&["add", film.as_str()], ladder.as_slice()].concat()).succeeds();
        let log = folder.file("access.log");
        let mut server = serve(&disk, &["--access-log", log.to_str().expect("a path")]);
        // The page of the test is the film's own: it is added to a copy of what is served.
        let copy = Pages::new();
        let list = String::from_utf8(curl(&[&server.url("/film/master.m3u8")])).expect("a playlist");
        fetch_film(&server, &list, copy.path());
        copy.write("film/index.html", PAGE);
        assert_eq!(server.stop().code, Some(0));
        video(&disk, &["add", &copy.file("film").display().to_string(), "--name", "played"]).succeeds();
        server = serve(&disk, &["--access-log", log.to_str().expect("a path")]);
        let profile = Pages::new();
        let browser = chromium(&server.url("/played/"), &profile).arguments(["--remote-debugging-port=0"]);
        let _browser = browser.patience(PATIENCE).start();
        let read = || std::fs::read_to_string(&log).unwrap_or_default();
        eventually("the film ends", PATIENCE, || read().contains("/saw/ended_") || read().contains("/saw/error_"));
        let text = read();
        let end = text.lines().find_map(|line| line.split_once("/saw/ended_at_")).map(|(_, rest)| rest.to_owned());
        let end = end.unwrap_or_else(|| panic!("it did not end: {text}"));
        assert!(end.starts_with("8_frames_"), "{end}\n{text}");
        let frames: u32 = end.split('_').nth(2).and_then(|count| count.parse().ok()).expect("a count");
        assert!(frames >= 150, "{end}");
        assert!(text.contains("/played/init_1.mp4"), "the better quality was taken: {text}");
        assert_eq!(server.stop().code, Some(0));
    });
}

/// Fetches a film's playlists and all that they name.
fn fetch_film(server: &Server, master: &str, folder: &Path) {
    let get = |name: &str| curl(&[&server.url(&format!("/film/{name}"))]);
    let target = folder.join("film");
    std::fs::create_dir_all(&target).expect("a folder");
    let mut pending = vec![("master.m3u8".to_owned(), master.as_bytes().to_vec())];
    while let Some((name, bytes)) = pending.pop() {
        if name.ends_with(".m3u8") {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let quoted = text.split("URI=\"").skip(1).filter_map(|rest| rest.split('"').next());
            let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
            for named in quoted.chain(lines) {
                pending.push((named.to_owned(), get(named)));
            }
        }
        std::fs::write(target.join(&name), bytes).expect("a file");
    }
}

/// A disk in use is not written by another command.
#[test]
fn a_disk_that_is_served_is_not_changed() {
    scenario(|| {
        let folder = Pages::new();
        let (disk, _) = disk_with(&folder, "films.img");
        let server = serve(&disk, &[]);
        let said = video(&disk, &["remove", "cut"]).run();
        assert!(said.code == Some(1) && said.stderr.contains("has to be stopped first"), "{}", said.stderr);
        assert_eq!(server.stop().code, Some(0));
    });
}

#[test]
fn films_are_served_from_the_daemons_disks() {
    scenario(|| {
        let folder = Pages::new();
        let large = Pages::pattern(LARGE_BYTES);
        folder.write("cut/large.bin", &large);
        let socket = folder.file("control.sock");
        let asks = |words: &[&str]| {
            Program::new(qanat()).arguments(words).environment("QANAT_SOCKET", &socket).patience(PATIENCE)
        };
        let _daemon = asks(&["up"]).start();
        eventually("the daemon listens", PATIENCE, || asks(&["limits"]).run().code == Some(0));
        let (cut, file) = (folder.file("cut").display().to_string(), folder.file("fast.img").display().to_string());
        let own = folder.file("own");
        std::fs::create_dir(&own).expect("a directory");
        asks(&["disk", "add", "fast", "--file", &file, "--size", "128M"]).succeeds();
        asks(&["disk", "add", "own", "--directory", &own.display().to_string(), "--size", "128M"]).succeeds();
        // By the disk's core, and by a file of its own.
        for disk in ["fast", "own"] {
            asks(&["disk", "create", "films", "--on", disk, "--size", "96M"]).succeeds();
            asks(&["video", "--disk", disk, "add", &cut]).succeeds();
            let mut server = asks(&["video", "--disk", disk]).start();
            let get = ["-s", "--max-time", "60", "http://10.77.0.2/cut/large.bin"];
            let mut got = Vec::new();
            eventually("it serves", PATIENCE, || {
                got = Program::new("curl").arguments(get).patience(PATIENCE).run().stdout;
                !got.is_empty() || !server.is_running()
            });
            assert!(got == large, "{disk}: {:?}", server.is_running());
        }
    });
}
