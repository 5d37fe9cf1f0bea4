//! A real browser: a page with pictures and a film, drawn from what we serve.

use qanat_tests::e2e::{Outcome, Pages, Program, Server, scenario, workspace};
use std::time::Duration;

/// Looks at `url`, and returns the page as it is once its script has run.
fn browse(url: &str, profile: &Pages, extra: &[&str]) -> Outcome {
    let data = format!("--user-data-dir={}", profile.argument());
    Program::new("chromium")
        .arguments([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-extensions",
            "--autoplay-policy=no-user-gesture-required",
            "--hide-scrollbars",
            "--window-size=900,1200",
            &data,
        ])
        .arguments(extra)
        .arguments([url])
        .environment("HOME", profile.path())
        .patience(Duration::from_secs(60))
        .succeeds()
}

/// Loads pictures and a film, seeks in it, and writes what it saw into the page.
const PAGE: &str = r#"<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>waiting</title><link rel="stylesheet" href="/site/style.css"></head>
<body>
<img id="png" src="/site/images/qanat.png" alt=""><img id="svg" src="/site/images/qanat.svg" alt="">
<video id="film" src="/site/video/water.webm" muted preload="auto"></video>
<pre id="report"></pre>
<script>
const lines = [];
const say = line => { lines.push(line); document.getElementById('report').textContent = lines.join('\n'); };
const loaded = image => image.complete ? Promise.resolve() :
  new Promise(done => { image.onload = done; image.onerror = done; });
const once = (target, name) => new Promise((done, fail) => {
  target.addEventListener(name, done, { once: true });
  target.addEventListener('error', () => fail(new Error('film: ' + (target.error && target.error.message))));
});
(async () => {
  try {
    for (const id of ['png', 'svg']) {
      const image = document.getElementById(id);
      await loaded(image);
      say(id + ' width ' + image.naturalWidth);
    }
    const film = document.getElementById('film');
    if (film.readyState < 1) await once(film, 'loadedmetadata');
    say('film ' + film.videoWidth + ' wide');
    say('film seekable to end ' + (film.seekable.length > 0 && film.seekable.end(0) >= film.duration - 0.1));
    for (const share of [0.9, 0.2, 0.6]) {
      const seeked = once(film, 'seeked');
      film.currentTime = film.duration * share;
      await seeked;
      say('seeked to ' + Math.round(100 * film.currentTime / film.duration) + ' ready ' + film.readyState);
    }
    const answers = await Promise.all([...Array(40).keys()].map(async number => {
      const answer = await fetch('/many/' + number);
      return (await answer.text()).length;
    }));
    say('fetched ' + answers.length + ' sum ' + answers.reduce((sum, length) => sum + length, 0));
    const part = await fetch('/site/video/water.webm', { headers: { Range: 'bytes=1000-1999' } });
    say('part ' + part.status + ' ' + (await part.arrayBuffer()).byteLength);
    const again = await fetch('/many/1', { cache: 'no-cache' });
    say('revalidated ' + again.status);
  } catch (error) {
    say('error ' + error);
  }
  document.title = 'done';
  await fetch('/done').catch(() => {});
})();
</script>
</body></html>
"#;

#[test]
fn chromium_draws_the_page_and_seeks_in_the_film() {
    scenario(|| {
        let pages = Pages::new().with("test.html", PAGE).with("done", "");
        for number in 0..40 {
            pages.write(&format!("many/{number}"), "x".repeat(1_000 + number));
        }
        Program::new("cp").arguments(["-r"]).arguments([workspace().join("site"), pages.file("site")]).succeeds();
        let logs = Pages::new();
        let log = logs.file("access.log");
        let mut server = Server::start(&[pages.argument(), "--access-log", log.to_str().unwrap_or_default()]);
        let profile = Pages::new();
        // The film's clock must be the real one, so: the time allowed, not virtual time.
        let outcome = browse(&server.url("/test.html"), &profile, &["--timeout=12000", "--dump-dom"]);
        let page = outcome.text();
        for line in [
            "png width ",
            "svg width ",
            "film seekable to end true",
            "seeked to 90 ready ",
            "seeked to 20 ready ",
            "seeked to 60 ready ",
            "fetched 40 sum 40780",
            "part 206 1000",
            "revalidated 200",
            "<title>done</title>",
        ] {
            assert!(page.contains(line), "{line:?} is missing:\n{page}\n{}", outcome.stderr);
        }
        for nothing in ["width 0", "film 0 wide", "error "] {
            assert!(!page.contains(nothing), "{nothing:?}:\n{page}");
        }
        let figures = server.figures();
        assert!(figures["web"]["partial"].as_u64() >= Some(2), "the film was asked for by ranges: {figures}");
        assert!(figures["web"]["not_modified"].as_u64() >= Some(1), "revalidation was answered: {figures}");
        let stopped = server.stop();
        assert_eq!((stopped.code, stopped.leaks()), (Some(0), vec![]));
        let log = std::fs::read_to_string(log).unwrap_or_default();
        assert!(log.contains("\"GET /site/video/water.webm HTTP/1.1\" 206 "), "{log}");
        assert!(log.contains("Chrome/"), "{log}");
    });
}

#[test]
fn chromium_photographs_the_sample_site() {
    scenario(|| {
        let server = Server::start(&["site"]);
        let (profile, pictures) = (Pages::new(), Pages::new());
        let picture = pictures.file("page.png");
        browse(&server.url("/"), &profile, &[&format!("--screenshot={}", picture.display())]);
        let png = std::fs::read(&picture).expect("a screenshot");
        assert!(png.starts_with(b"\x89PNG"), "a picture");
        // A page without its pictures is a few plain words: some 30 kB at this size.
        println!("screenshot: {} bytes", png.len());
        assert!(png.len() > 20_000, "{} bytes", png.len());
        assert!(server.stop().leaks().is_empty());
    });
}
