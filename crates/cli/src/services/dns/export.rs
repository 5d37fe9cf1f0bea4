//! What a name server exports: `zones/`, a master file for each zone as it is served. Zones are read where transfers read them, so the threads
//! that answer are not asked.

use bytes::Bytes;
use qanat_dns::name::Name;
use qanat_dns::transfer::{Version, Versions};
use qanat_dns::zone::text::text;
use qanat_export::names::{bytes_of, name_of};
use qanat_export::parts::{Listing, Part};
use qanat_export::tree::{CONTENT_BYTES_MAX, Entry, Kind, PAGE_ENTRIES_MAX, Page, TreeError};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// The file name of a zone: its name without the last dot. That of the root zone is the dot itself, and written as such a key is.
fn file_of(apex: &Name) -> Option<Vec<u8>> {
    let name = apex.to_string();
    name_of(name.strip_suffix('.').filter(|name| !name.is_empty()).unwrap_or(&name).as_bytes())
}

/// The zone of a file name.
fn apex_of(file: &[u8]) -> Option<Name> {
    let apex = Name::absolute(&String::from_utf8(bytes_of(file)?).ok()?).ok()?.to_lowercase();
    (file_of(&apex)? == file).then_some(apex)
}

/// Zones are listed in the order of this number, so a listing goes on at its place while zones come and go.
fn number_of(apex: &Name) -> u64 {
    let mut hasher = DefaultHasher::new();
    apex.wire().hash(&mut hasher);
    hasher.finish()
}

/// See the module.
struct Zones {
    versions: Versions,
    /// The text made last: who opens a file has asked for its size before.
    last: Option<(Arc<Version>, Bytes)>,
}

impl Listing for Zones {
    fn page(&mut self, cookie: u64) -> Result<Page, TreeError> {
        let serials = self.versions.serials();
        let mut all: Vec<(u64, &Name)> = serials.iter().map(|(apex, _)| (number_of(apex), apex)).collect();
        all.retain(|(number, _)| *number >= cookie);
        all.sort_unstable();
        // The first of the next page; those of one number are on the same.
        let next = all.get(PAGE_ENTRIES_MAX).map(|(number, _)| *number);
        let here = all.iter().take_while(|(number, _)| next.is_none_or(|next| *number < next));
        let entries = here.filter_map(|(_, apex)| Some(Entry { name: file_of(apex)?, kind: Kind::File })).collect();
        Ok(Page { entries, next })
    }

    fn content(&mut self, name: &[u8]) -> Result<Bytes, TreeError> {
        let apex = apex_of(name).ok_or(TreeError::Absent)?;
        let version = self.versions.newest(&apex).ok_or(TreeError::Absent)?;
        if let Some((_, text)) = self.last.as_ref().filter(|(last, _)| Arc::ptr_eq(last, &version)) {
            return Ok(text.clone());
        }
        let text = Bytes::from(text(&version.zone, CONTENT_BYTES_MAX).map_err(|_| TreeError::TooLarge)?);
        self.last = Some((version, text.clone()));
        Ok(text)
    }
}

/// `zones/`.
pub fn parts(versions: &Versions) -> Vec<(String, Part)> {
    vec![("zones".to_owned(), Part::Listing(Box::new(Zones { versions: versions.clone(), last: None })))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use qanat_dns::zone::parse::read_text;
    use std::collections::BTreeSet;
    use std::path::Path;

    fn put(versions: &Versions, apex: &str) {
        let apex = Name::absolute(apex).expect("a name");
        let text = "@ 60 SOA . . 1 2 3 4 5\n@ 60 NS ns.example.net.\n";
        let (zone, _) = read_text(&apex, Path::new("zone"), text).expect("a zone");
        versions.put(Arc::new(zone));
    }

    #[test]
    fn a_zone_has_one_file() {
        for (apex, file) in
            [("example.com", "example.com"), (".", "%2E"), ("0/25.2.0.192.in-addr.arpa", "0%2F25.2.0.192.in-addr.arpa")]
        {
            let apex = Name::absolute(apex).expect("a name");
            assert_eq!(file_of(&apex).as_deref(), Some(file.as_bytes()));
            assert_eq!(apex_of(file.as_bytes()), Some(apex));
        }
        for file in ["example.com.", "Example.com", "%", "a..b", "a%2fb", "\\"] {
            assert_eq!(apex_of(file.as_bytes()), None, "{file}");
        }
    }

    #[test]
    fn a_zone_that_stays_is_listed_once_while_others_go() {
        let versions = Versions::default();
        let apexes: BTreeSet<String> =
            (0..3 * PAGE_ENTRIES_MAX).map(|number| format!("zone-{number}.example")).collect();
        apexes.iter().for_each(|apex| put(&versions, apex));
        let mut zones = Zones { versions: versions.clone(), last: None };
        let (mut cookie, mut listed, mut pages) = (Some(0), Vec::new(), 0);
        while let Some(from) = cookie {
            let page = zones.page(from).expect("a page");
            assert!(page.entries.len() <= PAGE_ENTRIES_MAX);
            // The first that was listed goes, and moves no other's place.
            let first = page.entries.first().and_then(|entry| apex_of(&entry.name)).expect("a zone");
            versions.remove(&first);
            listed.extend(page.entries.into_iter().map(|entry| String::from_utf8(entry.name).expect("a name")));
            (cookie, pages) = (page.next, pages + 1);
        }
        assert_eq!((pages, listed.len()), (3, apexes.len()));
        assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), apexes);
    }

    #[test]
    fn a_file_is_the_newest_version() {
        let versions = Versions::default();
        put(&versions, "example.com");
        let mut zones = Zones { versions: versions.clone(), last: None };
        let content = zones.content(b"example.com").expect("a file");
        assert_eq!(content, "example.com. 60 IN SOA . . 1 2 3 4 5\nexample.com. 60 IN NS ns.example.net.\n");
        assert_eq!(zones.content(b"example.com"), Ok(content));
        assert_eq!(zones.content(b"example.net"), Err(TreeError::Absent));
        versions.remove(&Name::absolute("example.com").expect("a name"));
        assert_eq!(zones.content(b"example.com"), Err(TreeError::Absent));
    }
}
