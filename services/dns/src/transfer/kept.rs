//! A secondary's zone kept in a file: what it starts from before a primary answers. The file's time of modification is the
//! last time a primary spoke of the zone, so that it expires over a restart too (RFC 1034, section 4.3.5).

use super::timing::Timing;
use crate::name::{Name, Presentation};
use crate::zone::parse::read_copy;
use crate::zone::{Zone, ZoneError, type_name};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Why a zone cannot be read from the file that keeps it.
#[derive(Debug, thiserror::Error)]
#[error("{}: {cause}; the zone is fetched anew", path.display())]
pub struct KeptError {
    path: PathBuf,
    cause: Cause,
}

#[derive(Debug, thiserror::Error)]
enum Cause {
    #[error("{0}")]
    File(io::Error),
    #[error("{0}")]
    Zone(ZoneError),
    #[error("no SOA record")]
    NoSoa,
}

/// Since a primary spoke of the zone kept at `path`; nothing if the clock was put back meanwhile.
fn age(path: &Path) -> io::Result<Duration> {
    Ok(fs::metadata(path)?.modified()?.elapsed().unwrap_or_default())
}

/// The zone kept at `path`, and how long ago a primary spoke of it; `None`: there is none, or it has expired.
///
/// # Errors
/// It cannot be read, or is no zone of that name. It is fetched anew then, and the file replaced.
pub fn load(path: &Path, apex: &Name) -> Result<Option<(Zone, Duration)>, KeptError> {
    let wrong = |cause: Cause| KeptError { path: path.to_owned(), cause };
    let age = match age(path) {
        Ok(age) => age,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(wrong(Cause::File(error))),
    };
    let (zone, _) = read_copy(apex, path).map_err(|error| wrong(Cause::Zone(error)))?;
    let timing = zone.soa().and_then(|soa| Timing::of(soa.data)).ok_or_else(|| wrong(Cause::NoSoa))?;
    Ok((age < timing.expire()).then_some((zone, age)))
}

/// Writes `zone` to `path`: all of it or nothing, whenever the machine stops.
///
/// # Errors
/// What the file system says.
pub(super) fn save(path: &Path, zone: &Zone) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let mut file = BufWriter::new(File::create(&beside)?);
    writeln!(file, "; A copy of {}, written by qanat dns: it will be overwritten.", zone.apex())?;
    let mut line = String::new();
    for (index, record) in zone.records().enumerate() {
        // RFC 3597 section 5: this way of writing data suits every type, and is soon read.
        line.clear();
        let (owner, length) = (Presentation(zone.spelling(index)), record.data.len());
        let _ = write!(line, "{owner} {} {} \\# {length} ", record.ttl, type_name(record.rtype));
        for byte in record.data {
            let _ = write!(line, "{byte:02x}");
        }
        line.push('\n');
        file.write_all(line.as_bytes())?;
    }
    file.into_inner()?.sync_all()?;
    fs::rename(&beside, path)
}

/// A primary says that the zone kept at `path` is the newest.
pub(super) fn refresh(path: &Path) -> io::Result<()> {
    File::options().append(true).open(path)?.set_modified(SystemTime::now())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zone::parse::read_text;

    #[test]
    fn a_zone_is_kept_until_it_expires() {
        let apex = Name::absolute("example").unwrap();
        let text = "$TTL 60\n@ SOA ns host 7 100 100 1000 30\n@ NS ns\nns A 192.0.2.1\nMix.a\\.b\\000 TXT \"a \\\" b\"\n\
                    m 5 MX 10 Far.example.org.\nu TYPE65280 \\# 0\nh HTTPS 1 . alpn=h2\ne CAA 0 issue \"x\"\n";
        let (zone, _) = read_text(&apex, Path::new("zone"), text).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kept");
        assert!(load(&path, &apex).unwrap().is_none(), "never transferred");
        save(&path, &zone).unwrap();
        let (kept, _) = load(&path, &apex).unwrap().unwrap();
        assert!(kept.records().eq(zone.records()) && kept.serial() == 7);
        let spelled = |zone: &Zone| -> Vec<Vec<u8>> {
            (0..zone.record_count()).map(|index| zone.spelling(index).to_vec()).collect()
        };
        assert_eq!(spelled(&kept), spelled(&zone));
        assert!(spelled(&kept).iter().any(|owner| owner.starts_with(b"\x03Mix")), "letters as the primary wrote them");
        let put_back = |seconds| {
            let file = File::options().append(true).open(&path).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
        };
        put_back(900);
        assert!(load(&path, &apex).unwrap().unwrap().1 >= Duration::from_secs(900));
        put_back(1_000);
        assert!(load(&path, &apex).unwrap().is_none(), "expired");
        refresh(&path).unwrap();
        assert!(load(&path, &apex).unwrap().is_some());
        fs::write(&path, "half a zo").unwrap();
        assert!(load(&path, &apex).unwrap_err().to_string().contains("fetched anew"));
    }
}
