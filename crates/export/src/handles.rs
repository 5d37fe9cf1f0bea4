//! [`Handles`]: files and directories that readers have open.

use crate::tree::{CONTENT_BYTES_MAX, Entry, Kind, PAGE_ENTRIES_MAX, Page, TreeError, is_name};
use bytes::Bytes;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Files and directories open at once.
const OPEN_MAX: usize = 1_024;
/// Bytes that the contents of all open files have, at most.
const OPEN_BYTES_MAX: usize = 256 << 20;
/// Entries of a directory that a reader is shown at most.
const ENTRIES_MAX: u64 = 1 << 24;
/// How long pages without entries are asked for before the reader is told that there is no answer. Others wait meanwhile.
const PAGES_TIME_MAX: Duration = Duration::from_secs(2);
/// Places of `.` and `..`, which come first.
const DOTS: [&[u8]; 2] = [b".", b".."];

/// What a reader has open.
#[derive(Debug)]
enum Open {
    File(Bytes),
    Directory(Stream),
}

/// Where a reader of a directory is. Entries have places: the dots', then one after the other. The last page is remembered.
#[derive(Debug)]
struct Stream {
    entries: Vec<Entry>,
    /// The place of the first of them.
    first: u64,
    /// The cookie of the page that follows; `None`: there is none.
    next: Option<u64>,
}

impl Stream {
    fn new() -> Stream {
        Stream { entries: Vec::new(), first: DOTS.len() as u64, next: Some(0) }
    }

    /// The entry at a place, if it is of the page that is remembered.
    fn at(&self, place: u64) -> Result<Option<&Entry>, TreeError> {
        let index = place.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        let index = index.filter(|index| *index <= self.entries.len()).ok_or(TreeError::Position)?;
        Ok(self.entries.get(index))
    }

    /// The next page takes the place of this one. Names that can't be are left out.
    fn turn(&mut self, page: Page) -> Result<(), TreeError> {
        if page.entries.len() > PAGE_ENTRIES_MAX {
            return Err(TreeError::Broken);
        }
        self.first += self.entries.len() as u64;
        self.entries = page.entries;
        self.entries.retain(|entry| is_name(&entry.name));
        self.next = page.next;
        if self.first > ENTRIES_MAX { Err(TreeError::TooLarge) } else { Ok(()) }
    }
}

/// See the [module](self).
#[derive(Debug, Default)]
pub struct Handles {
    last: u64,
    bytes: usize,
    all: HashMap<u64, Open>,
}

impl Handles {
    fn add(&mut self, open: Open) -> Result<u64, TreeError> {
        if self.all.len() >= OPEN_MAX {
            return Err(TreeError::TooManyOpen);
        }
        self.last += 1;
        self.all.insert(self.last, open);
        Ok(self.last)
    }

    /// A file with this content is open.
    ///
    /// # Errors
    /// It is too large, or too much is open.
    pub fn open_file(&mut self, content: Bytes) -> Result<u64, TreeError> {
        let bytes = content.len();
        if bytes > CONTENT_BYTES_MAX {
            return Err(TreeError::TooLarge);
        }
        if self.bytes + bytes > OPEN_BYTES_MAX {
            return Err(TreeError::TooManyOpen);
        }
        let handle = self.add(Open::File(content))?;
        self.bytes += bytes;
        Ok(handle)
    }

    /// A directory is open.
    ///
    /// # Errors
    /// Too much is open.
    pub fn open_directory(&mut self) -> Result<u64, TreeError> {
        self.add(Open::Directory(Stream::new()))
    }

    /// The content of an open file.
    pub fn content(&self, handle: u64) -> Option<&Bytes> {
        match self.all.get(&handle)? {
            Open::File(content) => Some(content),
            Open::Directory(_) => None,
        }
    }

    /// Gives entries of an open directory from a place on, each with the place that follows it, until `give` says that there is no more
    /// room. `page` has a page of the directory.
    ///
    /// # Errors
    /// What `page` says, or the place is not remembered.
    pub fn read_directory(
        &mut self,
        handle: u64,
        place: u64,
        mut page: impl FnMut(u64) -> Result<Page, TreeError>,
        mut give: impl FnMut(Kind, u64, &[u8]) -> bool,
    ) -> Result<(), TreeError> {
        let Some(Open::Directory(stream)) = self.all.get_mut(&handle) else { return Err(TreeError::Stale) };
        let begun = Instant::now();
        if place == 0 {
            // From the beginning, perhaps anew.
            *stream = Stream::new();
        }
        let mut place = place;
        let mut has_given = false;
        loop {
            let dot = usize::try_from(place).ok().and_then(|place| DOTS.get(place));
            let (kind, name) = match (dot, stream.at(place.max(DOTS.len() as u64))?) {
                (Some(dot), _) => (Kind::Directory, *dot),
                (None, Some(entry)) => (entry.kind, entry.name.as_slice()),
                // What was given is enough: the kernel asks again, and others are served in between.
                (None, None) if has_given => return Ok(()),
                (None, None) => {
                    let Some(cookie) = stream.next else { return Ok(()) };
                    if begun.elapsed() > PAGES_TIME_MAX {
                        return Err(TreeError::Unanswered);
                    }
                    stream.turn(page(cookie)?)?;
                    continue;
                }
            };
            if give(kind, place + 1, name) {
                return Ok(());
            }
            has_given = true;
            place += 1;
        }
    }

    /// It is open no more.
    pub fn close(&mut self, handle: u64) {
        if let Some(Open::File(content)) = self.all.remove(&handle) {
            self.bytes -= content.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(names: &[&str]) -> Vec<Entry> {
        names.iter().map(|name| Entry { name: name.as_bytes().to_vec(), kind: Kind::File }).collect()
    }

    /// Reads with room for so many entries at once.
    fn read_all(room: usize, page: impl Fn(u64) -> Result<Page, TreeError>) -> Result<Vec<String>, TreeError> {
        let mut handles = Handles::default();
        let handle = handles.open_directory()?;
        let (mut place, mut all) = (0, Vec::new());
        loop {
            let before = all.len();
            let mut left = room;
            handles.read_directory(handle, place, &page, |_, next, name| {
                if left == 0 {
                    return true;
                }
                left -= 1;
                place = next;
                all.push(String::from_utf8_lossy(name).into_owned());
                false
            })?;
            if all.len() == before {
                return Ok(all);
            }
        }
    }

    fn three_pages(cookie: u64) -> Result<Page, TreeError> {
        Ok(match cookie {
            0 => Page { entries: entries(&["a", "b"]), next: Some(9) },
            9 => Page { entries: Vec::new(), next: Some(5) },
            _ => Page { entries: entries(&["c"]), next: None },
        })
    }

    #[test]
    fn each_entry_is_given_once_however_little_room_there_is() {
        for room in 1..8 {
            assert_eq!(read_all(room, three_pages).unwrap(), [".", "..", "a", "b", "c"], "{room}");
        }
    }

    #[test]
    fn names_that_can_not_be_are_not_given() {
        let page = |_| Ok(Page { entries: entries(&["..", "a/b", "", "x\0", ".", "good"]), next: None });
        assert_eq!(read_all(10, page).unwrap(), [".", "..", "good"]);
    }

    #[test]
    fn a_directory_that_leads_nowhere_is_given_up() {
        let page = |_| Ok(Page { entries: Vec::new(), next: Some(1) });
        let begun = Instant::now();
        let mut handles = Handles::default();
        let handle = handles.open_directory().unwrap();
        assert_eq!(handles.read_directory(handle, 2, page, |_, _, _| false), Err(TreeError::Unanswered));
        assert!(begun.elapsed() < PAGES_TIME_MAX * 5);
    }

    #[test]
    fn a_directory_without_end_ends() {
        let many: Vec<String> = (0..PAGE_ENTRIES_MAX).map(|number| number.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let mut stream = Stream::new();
        let mut turns = 0_u64;
        while stream.turn(Page { entries: entries(&many), next: Some(1) }).is_ok() {
            turns += 1;
        }
        assert_eq!(turns, ENTRIES_MAX / PAGE_ENTRIES_MAX as u64);
        let page = |_| Ok(Page { entries: entries(&vec!["a"; PAGE_ENTRIES_MAX + 1]), next: None });
        assert_eq!(read_all(10, page), Err(TreeError::Broken));
    }

    #[test]
    fn places_that_were_not_given_are_refused() {
        let mut handles = Handles::default();
        let handle = handles.open_directory().unwrap();
        for place in [3, 1 << 40, u64::MAX] {
            assert_eq!(handles.read_directory(handle, place, three_pages, |_, _, _| false), Err(TreeError::Position));
        }
        let other = handles.open_file(Bytes::from_static(b"x")).unwrap();
        for handle in [0, other, 77] {
            assert_eq!(handles.read_directory(handle, 0, three_pages, |_, _, _| false), Err(TreeError::Stale));
        }
        assert!(handles.content(handle).is_none());
    }

    #[test]
    fn what_is_open_is_bounded() {
        let mut handles = Handles::default();
        let large = Bytes::from(vec![0; CONTENT_BYTES_MAX]);
        let open: Vec<u64> = std::iter::from_fn(|| handles.open_file(large.clone()).ok()).collect();
        assert_eq!(open.len(), OPEN_BYTES_MAX / CONTENT_BYTES_MAX);
        assert_eq!(handles.open_file(Bytes::from(vec![0; CONTENT_BYTES_MAX + 1])), Err(TreeError::TooLarge));
        open.iter().for_each(|handle| handles.close(*handle));
        assert_eq!((handles.bytes, handles.all.len()), (0, 0));
        let open: Vec<u64> = std::iter::from_fn(|| handles.open_directory().ok()).collect();
        assert_eq!((open.len(), handles.open_directory()), (OPEN_MAX, Err(TreeError::TooManyOpen)));
    }
}
