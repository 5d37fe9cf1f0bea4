//! Zones of a configuration: each by itself, by a template, in files of their own, or as members of catalog zones.

use crate::name::{self, Name, NameError};
use crate::transfer::config::{KeyTable, TransferConfig, TransferConfigError, ZoneTable};
use crate::zone::members::Member;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The template of zones that name none.
const DEFAULT: &str = "default";
/// Stands for the zone's name in a template's file.
const NAME_MARK: &str = "%s";

/// A zone and its master file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ZoneFile {
    /// Its name.
    pub apex: Name,
    /// Its file.
    pub path: PathBuf,
}

/// What is wrong with what a file says of zones.
#[derive(Debug, thiserror::Error)]
pub(super) enum ZoneRuleError {
    #[error("template {0}: it is there twice")]
    TemplateTwice(String),
    #[error("zone {name}: {error}")]
    Name { name: String, error: NameError },
    #[error("zone {apex}: there is no [[template]] called {template:?} before it")]
    NoTemplate { apex: Name, template: String },
    #[error("zone {0}: neither a file nor a primary: where does it come from?")]
    NoSource(Name),
    #[error("zone {apex}: catalog: there is no [[template]] called {template:?} before it")]
    NoMemberTemplate { apex: Name, template: String },
    #[error("zone {0}: catalog: name the template of its members")]
    NoMemberTemplates(Name),
    #[error("zone {0}: it is there twice")]
    ZoneTwice(Name),
}

/// Where a zone's records come from and go to, as a `[[zone]]` or `[[template]]` says it. What it does not say is `None`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Rules {
    /// A master file; of a secondary, where it is kept.
    file: Option<PathBuf>,
    allow_transfer: Option<Vec<String>>,
    also_notify: Option<Vec<String>>,
    primary: Option<Vec<String>>,
}

impl Rules {
    /// What these leave open is as in `template`.
    fn over(&self, template: &Rules) -> Rules {
        Rules {
            file: self.file.clone().or_else(|| template.file.clone()),
            allow_transfer: self.allow_transfer.clone().or_else(|| template.allow_transfer.clone()),
            also_notify: self.also_notify.clone().or_else(|| template.also_notify.clone()),
            primary: self.primary.clone().or_else(|| template.primary.clone()),
        }
    }

    fn is_secondary(&self) -> bool {
        self.primary.as_ref().is_some_and(|primaries| !primaries.is_empty())
    }

    fn file(&self, apex: &Name) -> Option<PathBuf> {
        let pattern = self.file.as_ref()?;
        Some(pattern.to_str().map_or_else(|| pattern.clone(), |text| text.replace(NAME_MARK, &file_name(apex)).into()))
    }

    fn table(&self, apex: &Name) -> ZoneTable {
        ZoneTable {
            allow_transfer: self.allow_transfer.clone().unwrap_or_default(),
            also_notify: self.also_notify.clone().unwrap_or_default(),
            primary: self.primary.clone().unwrap_or_default(),
            file: self.file(apex).filter(|_| self.is_secondary()),
        }
    }
}

/// A zone's name as part of a file's: whatever a name may have in it, it stays in its directory.
fn file_name(apex: &Name) -> String {
    let mut text = String::new();
    for label in name::labels(apex.to_lowercase().wire()) {
        if !text.is_empty() {
            text.push('.');
        }
        for byte in label {
            match byte {
                b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => text.push(char::from(*byte)),
                // Writing to a String cannot fail.
                _ => drop(write!(text, "%{byte:02x}")),
            }
        }
    }
    if text.is_empty() { "root".to_owned() } else { text }
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawZone {
    name: String,
    template: Option<String>,
    file: Option<PathBuf>,
    allow_transfer: Option<Vec<String>>,
    also_notify: Option<Vec<String>>,
    primary: Option<Vec<String>>,
    /// It is a catalog zone: templates of its members, the first for those of no group.
    catalog: Option<Vec<String>>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTemplate {
    name: String,
    file: Option<PathBuf>,
    allow_transfer: Option<Vec<String>>,
    also_notify: Option<Vec<String>>,
    primary: Option<Vec<String>>,
}

/// What a file may have that another includes.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawZones {
    key: Vec<KeyTable>,
    template: Vec<RawTemplate>,
    zone: Vec<RawZone>,
}

impl RawZones {
    pub(super) fn new(key: Vec<KeyTable>, template: Vec<RawTemplate>, zone: Vec<RawZone>) -> RawZones {
        RawZones { key, template, zone }
    }
}

/// All that a configuration says of zones.
#[derive(Clone, Debug, Default)]
pub struct ZoneRules {
    keys: Vec<KeyTable>,
    templates: BTreeMap<String, Rules>,
    zones: BTreeMap<Name, Rules>,
    /// Catalog zones, with the templates of their members.
    catalogs: BTreeMap<Name, Vec<String>>,
}

impl ZoneRules {
    /// Adds what a file says, whose relative names of files start at `directory`.
    pub(super) fn add(&mut self, raw: RawZones, directory: &Path) -> Result<(), ZoneRuleError> {
        self.keys.extend(raw.key);
        let rooted = |file: &Option<PathBuf>| file.as_ref().map(|file| directory.join(file));
        for template in raw.template {
            let rules = Rules {
                file: rooted(&template.file),
                allow_transfer: template.allow_transfer,
                also_notify: template.also_notify,
                primary: template.primary,
            };
            if self.templates.insert(template.name.clone(), rules).is_some() {
                return Err(ZoneRuleError::TemplateTwice(template.name));
            }
        }
        for zone in raw.zone {
            let apex = Name::absolute(&zone.name);
            let apex = apex.map_err(|error| ZoneRuleError::Name { name: zone.name, error })?.to_lowercase();
            let own = Rules {
                file: rooted(&zone.file),
                allow_transfer: zone.allow_transfer,
                also_notify: zone.also_notify,
                primary: zone.primary,
            };
            let template = match &zone.template {
                Some(named) => {
                    let known = self.templates.get(named);
                    Some(
                        known
                            .ok_or_else(|| ZoneRuleError::NoTemplate { apex: apex.clone(), template: named.clone() })?,
                    )
                }
                None => self.templates.get(DEFAULT),
            };
            let rules = template.map_or_else(|| own.clone(), |template| own.over(template));
            if rules.file.is_none() && !rules.is_secondary() {
                return Err(ZoneRuleError::NoSource(apex));
            }
            if let Some(templates) = zone.catalog {
                let unknown = templates.iter().find(|named| !self.templates.contains_key(*named));
                if let Some(unknown) = unknown {
                    return Err(ZoneRuleError::NoMemberTemplate { apex, template: unknown.clone() });
                }
                if templates.is_empty() {
                    return Err(ZoneRuleError::NoMemberTemplates(apex));
                }
                self.catalogs.insert(apex.clone(), templates);
            }
            if self.zones.insert(apex.clone(), rules).is_some() {
                return Err(ZoneRuleError::ZoneTwice(apex));
            }
        }
        Ok(())
    }

    /// Adds a zone of a master file; it takes the place of one of that name.
    pub fn add_file(&mut self, zone: &ZoneFile) {
        let template = self.templates.get(DEFAULT).cloned().unwrap_or_default();
        let own = Rules { file: Some(zone.path.clone()), primary: Some(Vec::new()), ..Rules::default() };
        self.zones.insert(zone.apex.to_lowercase(), own.over(&template));
    }

    /// Whether there are no zones.
    pub fn is_empty(&self) -> bool {
        self.zones.is_empty()
    }

    /// Whether `apex` is a zone's name (small letters).
    pub fn has(&self, apex: &Name) -> bool {
        self.zones.contains_key(apex)
    }

    /// Zones of master files.
    pub fn files(&self) -> Vec<ZoneFile> {
        let files = self.zones.iter().filter(|(_, rules)| !rules.is_secondary());
        files.filter_map(|(apex, rules)| Some(ZoneFile { apex: apex.clone(), path: rules.file(apex)? })).collect()
    }

    /// Files in which copies of other servers' zones are kept.
    pub fn copies(&self) -> Vec<PathBuf> {
        let copies = self.zones.iter().filter(|(_, rules)| rules.is_secondary());
        copies.filter_map(|(apex, rules)| rules.file(apex)).collect()
    }

    /// Directories in which such files are, or may come to be: those of members of catalogs are named by templates.
    pub fn directories_of_copies(&self) -> BTreeSet<PathBuf> {
        let templates = self.templates.values().filter(|rules| rules.is_secondary());
        let named = templates.filter_map(|rules| rules.file.clone());
        let is_fixed = |path: &&Path| !path.as_os_str().as_encoded_bytes().contains(&b'%');
        let directory = |path: PathBuf| path.ancestors().skip(1).find(is_fixed).map(Path::to_owned);
        self.copies().into_iter().chain(named).filter_map(directory).collect()
    }

    /// Whether zones come from primaries, or members of a catalog might.
    pub fn may_fetch(&self) -> bool {
        !self.catalogs.is_empty() || self.zones.values().any(Rules::is_secondary)
    }

    /// Catalog zones.
    pub fn catalogs(&self) -> impl Iterator<Item = &Name> {
        self.catalogs.keys()
    }

    /// Where zones come from and go to.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn transfers(&self) -> Result<TransferConfig, TransferConfigError> {
        let tables: Vec<(&Name, ZoneTable)> = self
            .zones
            .iter()
            .map(|(apex, rules)| (apex, rules.table(apex)))
            .filter(|(_, table)| *table != ZoneTable::default())
            .collect();
        TransferConfig::new(&self.keys, tables.iter().map(|(apex, table)| (*apex, table)))
    }

    /// These rules with the members of catalog zones. A zone that the configuration itself names stays as it says
    /// (RFC 9432 section 5.2).
    #[must_use]
    pub fn with_members(&self, members: &BTreeMap<Name, (Name, Member)>) -> ZoneRules {
        let mut whole = self.clone();
        let own: BTreeSet<&Name> = self.zones.keys().collect();
        for (apex, (catalog, member)) in members.iter().filter(|(apex, _)| !own.contains(apex)) {
            let Some(templates) = self.catalogs.get(catalog) else { continue };
            let named = member.group.as_ref().filter(|group| templates.contains(group)).or_else(|| templates.first());
            let Some(rules) = named.and_then(|named| self.templates.get(named)) else { continue };
            if rules.file.is_some() || rules.is_secondary() {
                whole.zones.insert(apex.clone(), rules.clone());
            }
        }
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> Result<ZoneRules, Box<dyn std::error::Error>> {
        let mut rules = ZoneRules::default();
        rules.add(toml::from_str(text)?, Path::new("/etc"))?;
        Ok(rules)
    }

    fn name(text: &str) -> Name {
        Name::absolute(text).unwrap()
    }

    #[test]
    fn templates_fill_what_zones_leave_open() {
        let rules = rules(
            "[[template]]\nname = \"default\"\nfile = \"zones/%s.zone\"\nallow_transfer = [\"192.0.2.0/24\"]\n\
             [[template]]\nname = \"second\"\nprimary = [\"192.0.2.1\"]\nfile = \"copies/%s\"\n\
             [[zone]]\nname = \"A.example\"\n[[zone]]\nname = \"b.example\"\nfile = \"b\"\nallow_transfer = []\n\
             [[zone]]\nname = \"c.example\"\ntemplate = \"second\"\n[[zone]]\nname = \".\"\n",
        )
        .unwrap();
        let files: Vec<(String, PathBuf)> =
            rules.files().into_iter().map(|file| (file.apex.to_string(), file.path)).collect();
        assert_eq!(
            files,
            [
                (".".to_owned(), PathBuf::from("/etc/zones/root.zone")),
                ("a.example.".to_owned(), "/etc/zones/a.example.zone".into()),
                ("b.example.".to_owned(), "/etc/b".into()),
            ]
        );
        let transfers = rules.transfers().unwrap();
        assert_eq!(transfers.zone(&name("a.example")).map(|zone| zone.allow.len()), Some(1));
        assert!(transfers.zone(&name("b.example")).is_none(), "an empty list is a word, too");
        let kept = transfers.zone(&name("c.example")).and_then(|zone| zone.file.clone());
        assert_eq!(kept, Some("/etc/copies/c.example".into()));
    }

    #[test]
    fn mistakes_are_named() {
        let wrong = |text: &str| rules(text).map(|_| ()).unwrap_err().to_string();
        assert!(wrong("[[zone]]\nname = \"a\"\n").contains("neither a file nor a primary"));
        assert!(
            wrong("[[zone]]\nname = \"a\"\nfile = \"x\"\n[[zone]]\nname = \"A\"\nfile = \"y\"\n").contains("twice")
        );
        assert!(wrong("[[zone]]\nname = \"a\"\ntemplate = \"t\"\n").contains("no [[template]] called \"t\""));
        assert!(wrong("[[zone]]\nname = \"a\"\nfile = \"x\"\ncatalog = [\"t\"]\n").contains("\"t\""));
        assert!(wrong("[[template]]\nname = \"t\"\n[[template]]\nname = \"t\"\n").contains("twice"));
        assert!(wrong("port = 53\n").contains("port"), "an included file has zones only");
    }

    /// A catalog's primary chooses its members' names, and must not choose files by them.
    #[test]
    fn a_members_name_stays_in_its_directory() {
        let rules = rules(
            "[[template]]\nname = \"m\"\nprimary = [\"192.0.2.1\"]\nfile = \"copies/%s\"\n[[template]]\nname = \"other\"\n\
             primary = [\"192.0.2.9\"]\n[[zone]]\nname = \"cat\"\nfile = \"cat\"\ncatalog = [\"m\", \"other\"]\n\
             [[zone]]\nname = \"own\"\nfile = \"own\"\n",
        )
        .unwrap();
        let member = |group: Option<&str>| Member { id: b"1".to_vec(), group: group.map(str::to_owned), coo: None };
        let odd = Name::from_wire(b"\x0b../../Passwd\0".get(..13).unwrap())
            .or_else(|| Name::from_wire(b"\x0c../../Passwd\0"));
        let odd = odd.unwrap();
        let members = BTreeMap::from([
            (odd.to_lowercase(), (name("cat"), member(None))),
            (name("grouped"), (name("cat"), member(Some("other")))),
            (name("strange"), (name("cat"), member(Some("default")))),
            (name("own"), (name("cat"), member(None))),
        ]);
        let whole = rules.with_members(&members);
        let transfers = whole.transfers().unwrap();
        let file = transfers.zone(&odd.to_lowercase()).and_then(|zone| zone.file.clone());
        assert_eq!(file, Some("/etc/copies/%2e%2e%2f%2e%2e%2fpasswd".into()));
        let primary = |apex: &str| transfers.zone(&name(apex)).map(|zone| zone.primaries[0].address.to_string());
        assert_eq!(primary("grouped").as_deref(), Some("192.0.2.9:53"));
        assert_eq!(primary("strange").as_deref(), Some("192.0.2.1:53"), "a group that is not the catalog's");
        assert!(primary("own").is_none() && whole.files().iter().any(|file| file.apex == name("own")));
    }
}
