//! Which files a manifest names: of HLS (RFC 8216, 4) and of DASH (ISO/IEC 23009-1), as far as packagers write them. It is for checking
//! films, not for playing them.

/// What a manifest's name says it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A playlist of HLS.
    Hls,
    /// A presentation of DASH.
    Dash,
}

/// Bytes of a manifest that is read, at most.
pub const BYTES_MAX: u64 = 16 << 20;

/// What a file is; `None`: no manifest.
pub fn kind(path: &str) -> Option<Kind> {
    match path.rsplit_once('.')?.1.to_ascii_lowercase().as_str() {
        "m3u8" => Some(Kind::Hls),
        "mpd" => Some(Kind::Dash),
        _ => None,
    }
}

/// The files that a manifest names, as paths relative to its film. Addresses elsewhere are left out, and templates with a number that
/// only a player counts.
pub fn names(path: &str, kind: Kind, text: &str) -> Vec<String> {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let found: Vec<&str> = match kind {
        Kind::Hls => text.lines().filter_map(of_hls_line).collect(),
        Kind::Dash => of_dash(text).collect(),
    };
    let mut names: Vec<String> = found.into_iter().filter_map(|reference| beside(folder, reference)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// What a line of a playlist names: an address, or the `URI` of a tag.
fn of_hls_line(line: &str) -> Option<&str> {
    let line = line.trim();
    if !line.starts_with('#') {
        return Some(line).filter(|line| !line.is_empty());
    }
    let (_, rest) = line.split_once("URI=\"")?;
    rest.split_once('"').map(|(reference, _)| reference)
}

/// `initialization`, `media`, `sourceURL` and `mediaURL` without a counter, and `BaseURL`.
fn of_dash(text: &str) -> impl Iterator<Item = &str> {
    let attributes = ["initialization=\"", "media=\"", "sourceURL=\""].into_iter().flat_map(move |name| {
        text.split(name).skip(1).filter_map(|rest| rest.split_once('"').map(|(reference, _)| reference))
    });
    let bases = text
        .split("<BaseURL>")
        .skip(1)
        .filter_map(|rest| rest.split_once("</BaseURL>").map(|(reference, _)| reference.trim()));
    attributes.chain(bases).filter(|reference| !reference.contains('$') && !reference.ends_with('/'))
}

/// A reference in a manifest of a folder, as a path of the film; `None`: it leads elsewhere.
fn beside(folder: &str, reference: &str) -> Option<String> {
    if reference.contains("://") || reference.starts_with('/') || reference.starts_with("data:") {
        return None;
    }
    let reference = reference.split(['?', '#']).next().unwrap_or_default();
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in reference.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn playlists_name_lists_and_segments() {
        let text = "#EXTM3U\n#EXT-X-MEDIA:TYPE=AUDIO,URI=\"a/audio.m3u8\",NAME=\"x\"\n#EXT-X-MAP:URI=\"init.mp4\"\n\
                    #EXTINF:4,\nseg_1.m4s\r\n#EXTINF:4,\n../seg_2.m4s?x=1\nhttps://elsewhere/x.ts\n/absolute.ts\n";
        assert_eq!(kind("hd/list.M3U8"), Some(Kind::Hls));
        assert_eq!(
            names("hd/list.m3u8", Kind::Hls, text),
            ["hd/a/audio.m3u8", "hd/init.mp4", "hd/seg_1.m4s", "seg_2.m4s"]
        );
    }

    #[test]
    fn presentations_name_what_has_no_counter() {
        let text = "<MPD><BaseURL>https://elsewhere/</BaseURL><Representation><BaseURL> film.mp4 </BaseURL>\
                    <SegmentTemplate initialization=\"init-0.m4s\" media=\"chunk-$Number$.m4s\"/></MPD>";
        assert_eq!(names("m.mpd", Kind::Dash, text), ["film.mp4", "init-0.m4s"]);
        assert_eq!(kind("seg.m4s"), None);
    }

    #[test]
    fn nothing_leads_out_of_a_film() {
        assert_eq!(names("m.m3u8", Kind::Hls, "../../x.ts\n"), Vec::<String>::new());
    }
}
