//! The book (`make book`) as its readers have it: served by `qanat web`, in a real browser as wide as a telephone.
#![forbid(unsafe_code)]

use qanat_tests::e2e::{Pages, Program, Server, chromium, eventually, qanat, scenario, workspace};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// For a hundred pages, each drawn.
const PATIENCE: Duration = Duration::from_secs(240);

/// Draws each page that a link of another one leads to, and tells what it saw: each line is a request for `/saw/LINE`, which the access log
/// shows. `wide`: a page that is wider than the window. `lost`: a link to what is not there, or to a place on a page that is not. `beyond`:
/// something was fetched from elsewhere. `broken`: a picture that can't be drawn. `found`: how many pages the search finds.
const LOOK: &str = r#"<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Look</title></head><body>
<iframe id="window" style="width:390px;height:800px;border:0"></iframe><script>
const say = line => fetch('/saw/' + encodeURIComponent(line.replaceAll(' ', '_'))).catch(() => {});
const frame = document.getElementById('window');
const draw = url => new Promise(done => { frame.onload = done; frame.src = url; });
const places = new Map(), links = new Set(), pending = ['/book/index.html'], heard = new Set(pending);
(async () => {
  try {
    while (pending.length) {
      const path = pending.pop();
      if (!(await fetch(path, { method: 'HEAD' })).ok) continue;
      await draw(path);
      const page = frame.contentDocument, name = path.replace('/book/', '');
      places.set(path, new Set([...page.querySelectorAll('[id]')].map(element => element.id)));
      const width = page.documentElement.scrollWidth;
      if (width > 390) say('wide ' + width + ' ' + name);
      for (const image of page.images) if (!image.naturalWidth) say('broken ' + image.src + ' ' + name);
      for (const { name: url } of frame.contentWindow.performance.getEntriesByType('resource'))
        if (!url.startsWith(location.origin)) say('beyond ' + url + ' ' + name);
      for (const { href } of page.querySelectorAll('a[href]')) {
        const url = new URL(href);
        if (url.origin != location.origin) continue;
        links.add(name + ' ' + url.pathname + url.hash);
        if (url.pathname.endsWith('.html') && !heard.has(url.pathname)) {
          heard.add(url.pathname);
          pending.push(url.pathname);
        }
      }
    }
    const files = new Map();
    for (const link of links) {
      const [name, target] = link.split(' '), [path, hash] = target.split('#');
      if (path.endsWith('.html')) {
        const ids = places.get(path);
        if (!ids || hash && !ids.has(decodeURIComponent(hash))) say('lost ' + target + ' ' + name);
      } else {
        if (!files.has(path)) files.set(path, (await fetch(path, { method: 'HEAD' })).ok);
        if (!files.get(path)) say('lost ' + target + ' ' + name);
      }
    }
    await draw('/book/search.html?q=retransmission');
    let results = [];
    for (let wait = 0; wait < 100 && !results.length; wait++) {
      await new Promise(done => setTimeout(done, 100));
      results = frame.contentDocument.querySelectorAll('#search-results li a');
    }
    say('found ' + results.length);
    say('drawn ' + places.size);
  } catch (error) {
    say('error ' + error);
  }
  say('done');
})();
</script></body></html>"#;

/// Pages below a directory, by their names.
fn pages_below(directory: &Path) -> BTreeSet<String> {
    let found = Program::new("find").arguments([directory.as_os_str(), "-name".as_ref(), "*.html".as_ref()]);
    found.succeeds().text().lines().map(str::to_owned).collect()
}

fn book(to: &Path) -> Program {
    Program::new(workspace().join("tools/book")).arguments([to]).environment("QANAT", qanat()).patience(PATIENCE)
}

#[test]
fn every_page_is_legible_on_a_telephone_and_no_link_leads_nowhere() {
    scenario(|| {
        let pages = Pages::new().with("look.html", LOOK);
        book(&pages.file("book")).succeeds();
        // The last two were written by hand.
        for (command, said) in [
            ("qanat-web", "Examples"),
            ("qanat-load-http", "Examples"),
            ("qanat-vnic-create", "Examples"),
            ("qanat", "href=\"qanatd.html\""),
            ("qanatd", "Signals"),
        ] {
            let page = std::fs::read_to_string(pages.file(&format!("book/docs/commands/{command}.html")));
            assert!(page.is_ok_and(|page| page.contains(said)), "{command} has a page");
        }
        let (logs, profile) = (Pages::new(), Pages::new());
        let log = logs.file("access.log");
        let server = Server::start(&[pages.argument(), "--access-log", log.to_str().expect("a path")]);
        let browser = chromium(&server.url("/look.html"), &profile).arguments(["--remote-debugging-port=0"]);
        let _browser = browser.patience(PATIENCE).start();
        let read = || std::fs::read_to_string(&log).unwrap_or_default();
        eventually("all is drawn", PATIENCE, || read().contains("/saw/done "));
        let text = read();
        let saw = text.lines().filter_map(|line| Some(line.split_once("/saw/")?.1.split_once(' ')?.0));
        let (told, wrong): (Vec<_>, Vec<_>) =
            saw.partition(|saw| ["found_", "drawn_", "done"].iter().any(|kind| saw.starts_with(kind)));
        assert!(wrong.is_empty(), "{wrong:#?}");
        // Each page of the book is found by a link; the general index is a page without one.
        let count = pages_below(&pages.file("book")).len();
        assert!(count > 80, "{count} pages");
        let number = |kind: &str| told.iter().find_map(|told| told.strip_prefix(kind)?.parse::<usize>().ok());
        assert!(number("drawn_").is_some_and(|drawn| drawn + 2 >= count), "{told:?} of {count} pages");
        assert!(number("found_") >= Some(3), "{told:?}");
        assert_eq!(server.stop().code, Some(0));
    });
}

/// A directory with something else in it is left as it is.
#[test]
fn a_book_replaces_a_book_and_nothing_else() {
    let pages = Pages::new().with("mine.txt", "mine");
    let outcome = book(pages.path()).run();
    assert!(outcome.code == Some(1) && outcome.stderr.contains("no book"), "{}", outcome.stderr);
    assert_eq!(std::fs::read(pages.file("mine.txt")).ok().as_deref(), Some(b"mine".as_slice()));
}
