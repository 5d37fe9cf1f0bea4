//! Catalog zones (RFC 9432): a zone whose records are a list of other zones.

use super::records::Zone;
use super::rtype;
use crate::name::{self, Name};
use std::collections::BTreeMap;

/// Members of one catalog at most.
const MEMBERS_MAX: usize = 100_000;
/// The only version there is (section 4.2.1).
const VERSION: &[u8] = b"\x012";

/// A zone of a catalog.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Member {
    /// The label that is its own: with another, it is a new zone of the same name (section 5.4).
    pub id: Vec<u8>,
    /// The group it belongs to (section 4.3.2).
    pub group: Option<String>,
    /// The catalog it may move to (section 4.3.1).
    pub coo: Option<Name>,
}

/// Why a catalog zone is broken.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CatalogError {
    /// The version's record is missing, not alone, or another.
    #[error("it is no catalog of version 2: `version.{0} TXT \"2\"` is not there alone")]
    Version(Name),
    /// Several PTR records of one member.
    #[error("{count} PTR records at {owner}: one is a member")]
    PointerCount {
        /// How many.
        count: usize,
        /// Where, in presentation format.
        owner: String,
    },
    /// The data of a PTR record are no name.
    #[error("a member's name that is none")]
    MemberName,
    /// Two members have the same name.
    #[error("{0} is there twice")]
    Twice(Name),
    /// Too many members.
    #[error("more than {MEMBERS_MAX} members: split it")]
    TooManyMembers,
}

/// The members of the catalog `zone`, by their names.
///
/// # Errors
/// It is broken, and nothing in it may be followed (section 5.1).
pub fn members(zone: &Zone) -> Result<BTreeMap<Name, Member>, CatalogError> {
    let below = |label: &[u8]| -> Vec<u8> {
        let mut wire = vec![label.len() as u8];
        wire.extend_from_slice(label);
        wire.extend_from_slice(zone.apex().wire());
        wire
    };
    let versions = zone.set(&below(b"version"), rtype::TXT);
    let versions: Vec<&[u8]> = versions.map(|set| set.data().collect()).unwrap_or_default();
    if versions != [VERSION] {
        return Err(CatalogError::Version(zone.apex().clone()));
    }
    let parent = below(b"zones");
    let mut members: BTreeMap<Name, Member> = BTreeMap::new();
    for set in zone.sets().filter(|set| set.rtype() == rtype::PTR) {
        let Some(id) = own_label(set.owner(), &parent) else { continue };
        let targets: Vec<&[u8]> = set.data().collect();
        let [target] = *targets else {
            let owner = name::Presentation(set.owner()).to_string();
            return Err(CatalogError::PointerCount { count: set.len(), owner });
        };
        let member = Name::from_wire(target).ok_or(CatalogError::MemberName)?.to_lowercase();
        let property = |label: &[u8], rtype: u16| -> Option<Vec<u8>> {
            let mut owner = vec![label.len() as u8];
            owner.extend_from_slice(label);
            owner.extend_from_slice(set.owner());
            let set = zone.set(&owner, rtype)?;
            // Several are none (sections 4.3.1 and 4.3.2).
            (set.len() == 1).then(|| set.data().next().map(<[u8]>::to_vec))?
        };
        let group = property(b"group", rtype::TXT).and_then(|text| String::from_utf8(text.get(1..)?.to_vec()).ok());
        let coo = property(b"coo", rtype::PTR).and_then(|wire| Name::from_wire(&wire)).map(|name| name.to_lowercase());
        if members.insert(member.clone(), Member { id: id.to_vec(), group, coo }).is_some() {
            return Err(CatalogError::Twice(member));
        }
        if members.len() > MEMBERS_MAX {
            return Err(CatalogError::TooManyMembers);
        }
    }
    Ok(members)
}

/// The label of `owner` if it is a child of `parent`.
fn own_label<'a>(owner: &'a [u8], parent: &[u8]) -> Option<&'a [u8]> {
    let length = usize::from(*owner.first()?);
    (owner.get(length + 1..)? == parent).then(|| owner.get(1..=length))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zone::parse::read_text;
    use std::path::Path;

    fn read(records: &str) -> Result<BTreeMap<Name, Member>, CatalogError> {
        let text = format!("$TTL 0\n@ SOA . . 1 2 3 4 5\n@ NS invalid.\n{records}");
        members(&read_text(&Name::absolute("catz").unwrap(), Path::new("z"), &text).unwrap().0)
    }

    #[test]
    fn members_and_their_properties() {
        let found = read(
            "version TXT \"2\"\na.zones PTR Example.com.\ngroup.a.zones TXT \"nodnssec\"\nb.zones PTR example.net.\n\
             coo.b.zones PTR other.\ngroup.b.zones TXT x\ngroup.b.zones TXT y\nzones PTR nobody.\nx.c.zones PTR nobody.\n\
             d.zones TXT \"no member\"\n",
        )
        .unwrap();
        let name = |text: &str| Name::absolute(text).unwrap();
        let com = Member { id: b"a".to_vec(), group: Some("nodnssec".to_owned()), coo: None };
        let net = Member { id: b"b".to_vec(), group: None, coo: Some(name("other")) };
        assert_eq!(found, BTreeMap::from([(name("example.com"), com), (name("example.net"), net)]));
    }

    #[test]
    fn broken_catalogs_are_not_followed() {
        for (records, part) in [
            ("a.zones PTR b.\n", "version 2"),
            ("version TXT \"1\"\n", "version 2"),
            ("version TXT \"2\"\nversion TXT \"3\"\n", "version 2"),
            ("version TXT \"2\"\na.zones PTR b.\na.zones PTR c.\n", "2 PTR records"),
            ("version TXT \"2\"\na.zones PTR b.\nc.zones PTR B.\n", "twice"),
        ] {
            let error = read(records).unwrap_err().to_string();
            assert!(error.contains(part), "{records}: {error}");
        }
    }
}
