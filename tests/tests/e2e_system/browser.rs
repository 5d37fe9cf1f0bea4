//! A real browser: a page with pictures and a film, drawn from what we serve.

use qanat_tests::e2e::{PATIENCE, Pages, Program, Server, chromium, scenario, workspace};
use std::time::{Duration, Instant};

/// Seconds of sound, PCM in stereo: 176,400 bytes each.
fn sound(seconds: u32) -> Vec<u8> {
    const RATE: u32 = 44_100;
    let length = seconds * RATE * 4;
    let mut wave = b"RIFF".to_vec();
    wave.extend((36 + length).to_le_bytes());
    wave.extend(b"WAVEfmt ");
    wave.extend(16u32.to_le_bytes());
    wave.extend([1, 0, 2, 0]);
    wave.extend(RATE.to_le_bytes());
    wave.extend((RATE * 4).to_le_bytes());
    wave.extend([4, 0, 16, 0]);
    wave.extend(b"data");
    wave.extend(length.to_le_bytes());
    wave.extend((0..length).map(|at| if at % 2 == 1 { (at >> 10) as u8 & 7 } else { at as u8 }));
    wave
}

/// Loads pictures and a film, seeks in it, and tells the server what it saw: each line is a request for `/saw/LINE`,
/// which the access log shows.
const PAGE: &str = r#"<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Test</title><link rel="stylesheet" href="/site/style.css"></head>
<body>
<img id="png" src="/site/images/qanat.png" alt=""><img id="svg" src="/site/images/qanat.svg" alt="">
<video id="film" src="/site/video/water.webm" muted preload="auto"></video>
<audio id="sound" src="/sound.wav" muted preload="metadata"></audio>
<script>
const say = line => fetch('/saw/' + line.replaceAll(' ', '_')).catch(() => {});
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
    for (const id of ['film', 'sound']) {
      const film = document.getElementById(id);
      if (film.readyState < 1) await once(film, 'loadedmetadata');
      if (id == 'film') say('film ' + film.videoWidth + ' wide');
      say(id + ' seekable to end ' + (film.seekable.length > 0 && film.seekable.end(0) >= film.duration - 0.1));
      for (const share of [0.9, 0.2, 0.6]) {
        const seeked = once(film, 'seeked');
        film.currentTime = film.duration * share;
        await seeked;
        say(id + ' at ' + Math.round(100 * film.currentTime / film.duration) + ' ready ' + film.readyState);
      }
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
  say('done');
})();
</script>
</body></html>
"#;

#[test]
fn chromium_draws_the_page_and_seeks_in_the_film() {
    scenario(|| {
        let pages = Pages::new().with("test.html", PAGE).with("sound.wav", sound(180));
        for number in 0..40 {
            pages.write(&format!("many/{number}"), "x".repeat(1_000 + number));
        }
        Program::new("cp").arguments(["-r"]).arguments([workspace().join("site"), pages.file("site")]).succeeds();
        let logs = Pages::new();
        let log = logs.file("access.log");
        let mut server = Server::start(&[pages.argument(), "--access-log", log.to_str().unwrap_or_default()]);
        let profile = Pages::new();
        let _browser = chromium(&server.url("/test.html"), &profile).arguments(["--remote-debugging-port=0"]).start();
        let start = Instant::now();
        let read = || std::fs::read_to_string(&log).unwrap_or_default();
        while !read().contains("/saw/done ") && start.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(100));
        }
        let text = read();
        let saw: Vec<&str> = text.lines().filter_map(|line| line.split_once("/saw/")).map(|(_, saw)| saw).collect();
        for line in [
            "png_width_",
            "svg_width_",
            "film_seekable_to_end_true",
            "film_at_90_ready_",
            "film_at_20_ready_",
            "film_at_60_ready_",
            "sound_seekable_to_end_true",
            "sound_at_90_ready_",
            "sound_at_20_ready_",
            "sound_at_60_ready_",
            "fetched_40_sum_40780",
            "part_206_1000",
            "revalidated_200",
            "done",
        ] {
            assert!(saw.iter().any(|saw| saw.starts_with(line)), "{line:?} is missing: {saw:#?}\n{text}");
        }
        for wrong in ["png_width_0", "svg_width_0", "film_0_wide", "error"] {
            assert!(!saw.iter().any(|saw| saw.starts_with(wrong)), "{wrong:?}: {saw:#?}");
        }
        println!("the browser was done after {:?}", start.elapsed());
        let figures = server.figures();
        assert!(figures["web"]["not_modified"].as_u64() >= Some(1), "revalidation was answered: {figures}");
        let stopped = server.stop();
        assert_eq!((stopped.code, stopped.leaks()), (Some(0), vec![]));
        assert!(text.contains("\"GET /site/video/water.webm HTTP/1.1\" 206 "), "{text}");
        // The film fits the browser's buffer; the sound does not, so seeking in it takes further ranges.
        let parts = text.matches("\"GET /sound.wav HTTP/1.1\" 206 ").count();
        assert!(parts >= 2, "{parts} ranges of the sound: {text}");
        assert!(text.contains("Chrome/"), "{text}");
    });
}

#[test]
fn chromium_photographs_the_sample_site() {
    scenario(|| {
        let server = Server::start(&["site"]);
        let (profile, pictures) = (Pages::new(), Pages::new());
        let picture = pictures.file("page.png");
        let screenshot = format!("--screenshot={}", picture.display());
        chromium(&server.url("/"), &profile).arguments([&screenshot]).succeeds();
        let png = std::fs::read(&picture).expect("a screenshot");
        assert!(png.starts_with(b"\x89PNG"), "a picture");
        // A page without its pictures is a few plain words: some 30 kB at this size.
        println!("screenshot: {} bytes", png.len());
        assert!(png.len() > 20_000, "{} bytes", png.len());
        assert!(server.stop().leaks().is_empty());
    });
}
