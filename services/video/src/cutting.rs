//! How a film is cut: by ffmpeg, into fragments of some seconds that HLS and DASH share (CMAF), with the manifests of both.

use std::ffi::OsString;
use std::path::Path;

/// The master playlist of HLS that a film is to have. The page's player begins with it.
pub const HLS_MASTER: &str = "master.m3u8";
/// The manifest of DASH that a film is to have.
pub const DASH_MANIFEST: &str = "manifest.mpd";

/// A quality: so many lines, at so many bits a second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rung {
    /// Lines of the picture.
    pub lines: u32,
    /// Kilobits a second.
    pub kbit_s: u32,
}

/// Why a quality is none.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0:?} is no quality: write lines and kilobits a second, as 720:2500")]
pub struct RungError(String);

impl std::str::FromStr for Rung {
    type Err = RungError;

    fn from_str(text: &str) -> Result<Rung, RungError> {
        let wrong = || RungError(text.to_owned());
        let (lines, kbit_s) = text.split_once(':').ok_or_else(wrong)?;
        let lines = lines.trim_end_matches('p').parse().ok().filter(|lines| (16..=8_640).contains(lines));
        let kbit_s = kbit_s.trim_end_matches('k').parse().ok().filter(|kbit| (16..=1_000_000).contains(kbit));
        Ok(Rung { lines: lines.ok_or_else(wrong)?, kbit_s: kbit_s.ok_or_else(wrong)? })
    }
}

/// What a film's streams are, as ffprobe says.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Streams {
    /// The codec of the picture; empty: there is none.
    pub video: String,
    /// The codec of the sound; empty: there is none.
    pub audio: String,
}

impl Streams {
    /// ffprobe's arguments, which make it write a line `codec_type=codec_name` for each stream.
    pub fn probe_arguments(film: &Path) -> Vec<OsString> {
        let fixed = ["-v", "error", "-show_entries", "stream=codec_name,codec_type", "-of", "csv=p=0"];
        fixed.into_iter().map(OsString::from).chain([film.as_os_str().to_owned()]).collect()
    }

    /// What ffprobe has written: `codec_name,codec_type` of each stream.
    pub fn of_probe(text: &str) -> Streams {
        let mut streams = Streams::default();
        for (codec, kind) in text.lines().filter_map(|line| line.trim().split_once(',')) {
            match kind.trim_end_matches(',') {
                "video" if streams.video.is_empty() => codec.clone_into(&mut streams.video),
                "audio" if streams.audio.is_empty() => codec.clone_into(&mut streams.audio),
                _ => {}
            }
        }
        streams
    }

    /// Whether the picture can stay as it is: every browser shows H.264.
    pub fn video_is_kept(&self, ladder: &[Rung]) -> bool {
        ladder.is_empty() && self.video == "h264"
    }
}

/// ffmpeg's arguments: cuts `film` into `folder`, in fragments of so many seconds. `ladder`: qualities to make; none: the film's own.
pub fn arguments(film: &Path, folder: &Path, streams: &Streams, ladder: &[Rung], segment_s: u32) -> Vec<OsString> {
    let mut all: Vec<OsString> =
        ["-nostdin", "-v", "error", "-progress", "pipe:1", "-y", "-i"].map(OsString::from).into();
    all.push(film.as_os_str().to_owned());
    let mut add = |parts: &[&str]| all.extend(parts.iter().map(OsString::from));
    let has_video = !streams.video.is_empty();
    if has_video {
        for _ in 0..ladder.len().max(1) {
            add(&["-map", "0:v:0"]);
        }
    }
    if !streams.audio.is_empty() {
        add(&["-map", "0:a:0"]);
        // Every browser hears AAC.
        add(if streams.audio == "aac" { &["-c:a", "copy"] } else { &["-c:a", "aac", "-b:a", "128k", "-ac", "2"] });
    }
    if streams.video_is_kept(ladder) {
        add(&["-c:v", "copy"]);
    } else if has_video {
        // A key frame where each fragment begins, at the same moments in all qualities.
        let keys = format!("expr:gte(t,n_forced*{segment_s})");
        add(&["-c:v", "libx264", "-preset", "veryfast", "-pix_fmt", "yuv420p", "-sc_threshold", "0"]);
        add(&["-force_key_frames", &keys]);
        for (index, Rung { lines, kbit_s }) in ladder.iter().enumerate() {
            let option = |name: &str| format!("{name}:{index}");
            add(&[&format!("-filter:v:{index}"), &format!("scale=-2:{lines}")]);
            add(&[&option("-b:v"), &format!("{kbit_s}k"), &option("-maxrate:v"), &format!("{}k", kbit_s * 3 / 2)]);
            add(&[&option("-bufsize:v"), &format!("{}k", kbit_s * 2)]);
        }
    }
    let sets = match (has_video, streams.audio.is_empty()) {
        (true, false) => "id=0,streams=v id=1,streams=a",
        (true, true) => "id=0,streams=v",
        (false, _) => "id=0,streams=a",
    };
    add(&["-f", "dash", "-seg_duration", &segment_s.to_string(), "-use_template", "1", "-use_timeline", "1"]);
    add(&["-hls_playlist", "1", "-hls_master_name", HLS_MASTER, "-adaptation_sets", sets]);
    add(&[
        "-init_seg_name",
        "init_$RepresentationID$.mp4",
        "-media_seg_name",
        "seg_$RepresentationID$_$Number%05d$.m4s",
    ]);
    all.push(folder.join(DASH_MANIFEST).into_os_string());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(streams: &Streams, ladder: &[Rung]) -> String {
        let all = arguments(Path::new("in.mp4"), Path::new("/out"), streams, ladder, 4);
        all.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_browsers_show_is_kept_and_a_ladder_is_made() {
        let streams = Streams::of_probe("h264,video\naac,audio\nmov_text,subtitle\n");
        assert_eq!(streams, Streams { video: "h264".into(), audio: "aac".into() });
        let kept = line(&streams, &[]);
        assert!(kept.contains("-c:v copy") && kept.contains("-c:a copy"), "{kept}");
        let ladder = ["360:600".parse().unwrap(), "720p:2500k".parse().unwrap()];
        let made = line(&streams, &ladder);
        assert!(made.contains("scale=-2:720 -b:v:1 2500k") && made.matches("0:v:0").count() == 2, "{made}");
        let other = line(&Streams::of_probe("vp9,video\n"), &[]);
        assert!(other.contains("libx264") && other.contains("id=0,streams=v -init"), "{other}");
    }

    #[test]
    fn a_quality_is_lines_and_a_rate() {
        assert_eq!("480:1000".parse(), Ok(Rung { lines: 480, kbit_s: 1_000 }));
        for wrong in ["480", "0:1", "a:b", ":", "480:"] {
            assert!(wrong.parse::<Rung>().is_err(), "{wrong}");
        }
    }
}
