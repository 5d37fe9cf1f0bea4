//! Compression of what is not there compressed: once for each state of a file, when it is prepared, on a reader thread.

use crate::http::encoding::Coding;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

/// Bytes of a file that is worth it: a shorter one is a segment anyway, and a longer one would have its first client wait too long.
const BYTES: std::ops::RangeInclusive<u64> = 1_024..=4 << 20;
/// Brotli's quality and the bits of its window: nginx's defaults for pages that are made.
const BROTLI: (u32, u32) = (6, 22);
/// Types that get shorter, besides `text/…`.
const TYPES: [&str; 16] = [
    "application/atom+xml",
    "application/dash+xml",
    "application/json",
    "application/ld+json",
    "application/manifest+json",
    "application/rss+xml",
    "application/vnd.apple.mpegurl",
    "application/wasm",
    "application/xhtml+xml",
    "application/xml",
    "application/yaml",
    "font/otf",
    "font/ttf",
    "image/bmp",
    "image/svg+xml",
    "image/vnd.microsoft.icon",
];

/// Whether a file of this type and length is compressed.
pub fn is_worth_it(media_type: &str, bytes: u64) -> bool {
    (media_type.starts_with("text/") || TYPES.contains(&media_type)) && BYTES.contains(&bytes)
}

/// The content in a coding; `None`: it would not be shorter by a tenth.
pub fn compress(content: &[u8], coding: Coding) -> Option<Vec<u8>> {
    let enough = content.len() / 10 * 9;
    let compressed = match coding {
        Coding::Identity => return None,
        Coding::Gzip => {
            let mut encoder = GzEncoder::new(Vec::with_capacity(enough), Compression::default());
            encoder.write_all(content).and_then(|()| encoder.finish()).ok()?
        }
        Coding::Brotli => {
            let mut encoder = brotli::CompressorWriter::new(Vec::with_capacity(enough), 4_096, BROTLI.0, BROTLI.1);
            encoder.write_all(content).ok()?;
            encoder.into_inner()
        }
    };
    (compressed.len() <= enough).then_some(compressed)
}
