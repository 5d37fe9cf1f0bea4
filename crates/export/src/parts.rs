//! [`Parts`]: a tree of fixed parts. A service says what it has, and under which names.
//!
//! ```text
//!   /              a directory of named parts
//!   ├─ figures     a file whose content is made when it is opened
//!   └─ keys/       a listing: the service finds names, and tells them page by page
//! ```
//! A number is a part's place from 1 on; of a listed name it is the listing's in the upper bits, and the name's in the lower ones.

use crate::numbers::Numbers;
use crate::tree::{Attributes, Entry, Kind, Page, Tree, TreeError, is_name};
use bytes::Bytes;

/// Names of a listing whose numbers are known at once.
const NAMES_KNOWN: usize = 65_536;
/// Bits of a number that say which name of a listing it is. A million new names a second fill them in half a year; a number beyond them
/// would be of the next listing, so it is refused.
const NAME_BITS: u32 = 44;

/// Makes a file's content.
pub type Make = Box<dyn FnMut() -> Result<Bytes, TreeError> + Send>;

/// What a name of a tree stands for.
pub enum Part {
    /// A directory.
    Directory(Vec<(String, Part)>),
    /// A file whose content is made when somebody opens it, or asks for its size.
    File(Make),
    /// A directory of files that the service knows.
    Listing(Box<dyn Listing>),
}

/// A directory of files that come and go.
pub trait Listing: Send {
    /// Some names, from a cookie on (0: the first), as [`Tree::page`].
    ///
    /// # Errors
    /// They are not known in time.
    fn page(&mut self, cookie: u64) -> Result<Page, TreeError>;

    /// The content of a name's file.
    ///
    /// # Errors
    /// There is none, or it is not known in time.
    fn content(&mut self, name: &[u8]) -> Result<Bytes, TreeError>;
}

/// A name that no part can have.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0:?} can't be the name of a part: it is empty, too long, has a slash, or is there twice")]
pub struct PartNameError(pub String);

/// A part at its place.
enum Placed {
    /// Names, and the places of what has them.
    Directory(Vec<(Vec<u8>, usize)>),
    File(Make),
    Listing(Box<dyn Listing>, Numbers),
}

/// A tree of parts. The first one is the root.
pub struct Parts {
    all: Vec<Placed>,
}

/// What a number stands for.
enum Found<'a> {
    Directory(&'a [(Vec<u8>, usize)]),
    File(&'a mut Make),
    Listing(&'a mut dyn Listing, &'a mut Numbers, u64),
    Listed(&'a mut dyn Listing, std::sync::Arc<[u8]>),
}

fn number_of_place(place: usize) -> u64 {
    place as u64 + 1
}

fn size(content: &Bytes) -> Attributes {
    Attributes::file(content.len() as u64)
}

impl Parts {
    /// The root has these names.
    ///
    /// # Errors
    /// A part can't have its name.
    pub fn new(parts: Vec<(String, Part)>) -> Result<Parts, PartNameError> {
        let mut tree = Parts { all: Vec::new() };
        tree.place(Part::Directory(parts))?;
        Ok(tree)
    }

    /// Puts a part and what is below it at places; the part's own.
    fn place(&mut self, part: Part) -> Result<usize, PartNameError> {
        let place = self.all.len();
        match part {
            Part::File(make) => self.all.push(Placed::File(make)),
            Part::Listing(listing) => self.all.push(Placed::Listing(listing, Numbers::new(NAMES_KNOWN))),
            Part::Directory(parts) => {
                self.all.push(Placed::Directory(Vec::new()));
                let mut names: Vec<(Vec<u8>, usize)> = Vec::new();
                for (name, part) in parts {
                    if !is_name(name.as_bytes()) || names.iter().any(|(other, _)| *other == name.as_bytes()) {
                        return Err(PartNameError(name));
                    }
                    names.push((name.into_bytes(), self.place(part)?));
                }
                if let Some(placed) = self.all.get_mut(place) {
                    *placed = Placed::Directory(names);
                }
            }
        }
        Ok(place)
    }

    fn find(&mut self, node: u64) -> Result<Found<'_>, TreeError> {
        let (upper, lower) = (node >> NAME_BITS, node & ((1 << NAME_BITS) - 1));
        let place = usize::try_from(if upper == 0 { lower } else { upper }).map_err(|_| TreeError::Stale)?;
        let placed = place.checked_sub(1).and_then(|place| self.all.get_mut(place)).ok_or(TreeError::Stale)?;
        match (placed, upper) {
            (Placed::Directory(names), 0) => Ok(Found::Directory(names)),
            (Placed::File(make), 0) => Ok(Found::File(make)),
            (Placed::Listing(listing, numbers), 0) => Ok(Found::Listing(listing.as_mut(), numbers, lower << NAME_BITS)),
            (Placed::Listing(listing, numbers), _) => {
                let name = numbers.name(lower).ok_or(TreeError::Stale)?;
                Ok(Found::Listed(listing.as_mut(), name))
            }
            _ => Err(TreeError::Stale),
        }
    }

    fn kind(&self, place: usize) -> Kind {
        match self.all.get(place) {
            Some(Placed::File(_)) => Kind::File,
            _ => Kind::Directory,
        }
    }
}

impl Tree for Parts {
    fn look_up(&mut self, directory: u64, name: &[u8]) -> Result<(u64, Attributes), TreeError> {
        match self.find(directory)? {
            Found::Directory(names) => {
                let place = names.iter().find_map(|(known, place)| (known == name).then_some(*place));
                let number = number_of_place(place.ok_or(TreeError::Absent)?);
                Ok((number, self.attributes(number)?))
            }
            Found::Listing(listing, numbers, upper) => {
                let attributes = size(&listing.content(name)?);
                let number = numbers.number(name);
                if number >> NAME_BITS != 0 {
                    return Err(TreeError::TooLarge);
                }
                Ok((upper | number, attributes))
            }
            Found::File(_) | Found::Listed(..) => Err(TreeError::NotDirectory),
        }
    }

    fn attributes(&mut self, node: u64) -> Result<Attributes, TreeError> {
        match self.find(node)? {
            Found::Directory(_) | Found::Listing(..) => Ok(Attributes::DIRECTORY),
            Found::File(make) => Ok(size(&make()?)),
            Found::Listed(listing, name) => Ok(size(&listing.content(&name)?)),
        }
    }

    fn page(&mut self, directory: u64, cookie: u64) -> Result<Page, TreeError> {
        let names = match self.find(directory)? {
            Found::Directory(names) => names.to_vec(),
            Found::Listing(listing, ..) => return listing.page(cookie),
            Found::File(_) | Found::Listed(..) => return Err(TreeError::NotDirectory),
        };
        // Fixed parts are few: they are one page.
        let entries = names.into_iter().map(|(name, place)| Entry { kind: self.kind(place), name }).collect();
        Ok(Page { entries, next: None })
    }

    fn open(&mut self, file: u64) -> Result<Bytes, TreeError> {
        match self.find(file)? {
            Found::File(make) => make(),
            Found::Listed(listing, name) => listing.content(&name),
            Found::Directory(_) | Found::Listing(..) => Err(TreeError::IsDirectory),
        }
    }

    fn forget(&mut self, node: u64, look_ups: u64) {
        let place = usize::try_from(node >> NAME_BITS).ok().and_then(|upper| upper.checked_sub(1));
        if let Some(Placed::Listing(_, numbers)) = place.and_then(|place| self.all.get_mut(place)) {
            numbers.forget(node & ((1 << NAME_BITS) - 1), look_ups);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::ROOT_NODE;
    use proptest::prelude::*;

    struct Letters;

    impl Listing for Letters {
        fn page(&mut self, cookie: u64) -> Result<Page, TreeError> {
            let entry = |name: &[u8]| Entry { name: name.to_vec(), kind: Kind::File };
            Ok(match cookie {
                0 => Page { entries: vec![entry(b"a")], next: Some(7) },
                _ => Page { entries: vec![entry(b"b")], next: None },
            })
        }

        fn content(&mut self, name: &[u8]) -> Result<Bytes, TreeError> {
            match name {
                b"a" | b"b" => Ok(Bytes::copy_from_slice(&name.repeat(3))),
                _ => Err(TreeError::Absent),
            }
        }
    }

    fn sample() -> Parts {
        let mut count = 0_u8;
        let counted = Part::File(Box::new(move || {
            count += 1;
            Ok(Bytes::from(vec![b'x'; usize::from(count)]))
        }));
        let below = Part::Directory(vec![("letters".to_owned(), Part::Listing(Box::new(Letters)))]);
        Parts::new(vec![("count".to_owned(), counted), ("below".to_owned(), below)]).expect("names")
    }

    #[test]
    fn names_lead_down_to_contents() {
        let mut tree = sample();
        let (count, attributes) = tree.look_up(ROOT_NODE, b"count").unwrap();
        assert_eq!(attributes, Attributes::file(1));
        // Made anew by each who asks.
        assert_eq!(tree.open(count).unwrap(), "xx");
        assert_eq!(tree.look_up(count, b"a"), Err(TreeError::NotDirectory));
        let (below, _) = tree.look_up(ROOT_NODE, b"below").unwrap();
        let (letters, attributes) = tree.look_up(below, b"letters").unwrap();
        assert_eq!(attributes, Attributes::DIRECTORY);
        let (a, attributes) = tree.look_up(letters, b"a").unwrap();
        assert_eq!((attributes, tree.open(a).unwrap()), (Attributes::file(3), "aaa".into()));
        assert_eq!(tree.look_up(letters, b"a").unwrap().0, a);
        assert_ne!(tree.look_up(letters, b"b").unwrap().0, a);
        assert_eq!(tree.look_up(letters, b"c"), Err(TreeError::Absent));
        assert_eq!(tree.page(letters, 0).unwrap().next, Some(7));
        assert_eq!(tree.open(letters), Err(TreeError::IsDirectory));
        tree.forget(a, 2);
        assert_eq!(tree.attributes(a), Err(TreeError::Stale));
        let root: Vec<_> = tree.page(ROOT_NODE, 0).unwrap().entries.into_iter().map(|entry| entry.name).collect();
        assert_eq!(root, [b"count".to_vec(), b"below".to_vec()]);
    }

    #[test]
    fn parts_with_names_that_can_not_be_are_refused() {
        for names in [["a/b", "c"], ["..", "c"], ["", "c"], ["c", "c"]] {
            let parts = names.map(|name| (name.to_owned(), Part::Directory(Vec::new())));
            assert!(Parts::new(parts.into()).is_err(), "{names:?}");
        }
    }

    proptest! {
        /// The kernel only asks for numbers that it was given; any other is of nothing.
        #[test]
        fn any_number_is_answered(node in any::<u64>(), cookie in any::<u64>()) {
            let mut tree = sample();
            let _ = (tree.look_up(node, b"a"), tree.attributes(node), tree.page(node, cookie), tree.open(node));
            tree.forget(node, cookie);
            prop_assert!(tree.look_up(ROOT_NODE, b"below").is_ok());
        }
    }
}
