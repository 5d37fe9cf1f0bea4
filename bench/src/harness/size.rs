//! [`size`]: bytes for people.

/// As “512 B”, “4 KiB” or “1 MiB”, whichever is shortest; what is left over is not told.
pub fn size(bytes: usize) -> String {
    match bytes {
        bytes if bytes >= 1 << 20 => format!("{} MiB", bytes >> 20),
        bytes if bytes >= 1 << 10 => format!("{} KiB", bytes >> 10),
        bytes => format!("{bytes} B"),
    }
}
