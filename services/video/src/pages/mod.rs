//! Pages of this program's own: the list of films, and one for each film, with a player. A browser that knows HLS plays by itself; for
//! others `player.js` reads the same playlists and feeds the fragments to Media Source Extensions. No script comes from elsewhere.

use crate::cutting::HLS_MASTER;
use bytes::Bytes;
use qanat_web::content::{Content, Representation, Variant, mime};
use std::collections::BTreeMap;

const FILM_PAGE: &str = include_str!("film.html");
const LIST_PAGE: &str = include_str!("list.html");
const PLAYER: &str = include_str!("player.js");

/// All pages, by path; `films`: the files of each.
pub fn all(films: &BTreeMap<String, Vec<String>>) -> Vec<(Vec<u8>, Variant)> {
    let mut list = String::new();
    let mut pages = vec![page("player.js", PLAYER)];
    for (film, files) in films {
        // Films' names have no letters that mean something in HTML.
        let count = files.len();
        let note =
            if files.iter().any(|file| file == HLS_MASTER) { String::new() } else { format!(", no {HLS_MASTER}") };
        list.push_str(&format!("<li><a href=\"{film}/\">{film}</a> <small>{count} files{note}</small></li>\n"));
        pages.push(page(&format!("{film}/"), &FILM_PAGE.replace("FILM", film)));
    }
    if list.is_empty() {
        list.push_str("<li>There are no films yet: <code>qanat video --disk DISK add film.mp4</code> adds one.</li>\n");
    }
    pages.push(page("", &LIST_PAGE.replace("FILMS", &list)));
    pages
}

fn page(path: &str, text: &str) -> (Vec<u8>, Variant) {
    let bytes = Bytes::copy_from_slice(text.as_bytes());
    let media_type = if path.ends_with(".js") { mime::of(path.as_bytes()) } else { mime::of(b"x.html") };
    let representation = Representation {
        media_type,
        // The page is this program's: another version's has another tag.
        etag: format!("\"page-{:08x}\"", sum(text)),
        last_modified: 0,
        coding: None,
        varies: false,
        cache_control: Some("no-cache".to_owned()),
        common: String::new(),
    };
    let size = bytes.len() as u64;
    (path.into(), Variant::of_library(representation, Content::Page(bytes), size))
}

/// FNV-1a: tells one text from another.
fn sum(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |sum, byte| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}
