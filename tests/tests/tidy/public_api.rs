//! What the crates that can be published offer, line by line, in `public-api.txt` beside each manifest: a change of it is seen in review.
//! Once a version is released, a line goes only with a version that is not compatible with it (<https://semver.org>; before 1.0, a minor one).
//!
//! It is read from the text of the code. What macros make of their arguments is not in it.

use super::lists::added_and_gone;
use qanat_tests::e2e::workspace;
use quote::ToTokens;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use syn::{Fields, ImplItem, Item, TraitItem, UseTree, Visibility};

/// What a program of the native API is built of.
const PUBLISHED: [&str; 9] = ["wire", "nic", "api", "abi", "disk", "stack", "control", "qanat", "native"];
/// A re-export of a re-export, and so on, at most.
const DEPTH_MAX: usize = 8;

/// A module: its items, and the modules in it.
#[derive(Default)]
struct Module {
    items: Vec<Item>,
    modules: BTreeMap<String, Module>,
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// Only in tests.
fn is_of_tests(attributes: &[syn::Attribute]) -> bool {
    let is = |attribute: &syn::Attribute| {
        attribute.path().is_ident("cfg") && text(&attribute.meta).replace(' ', "").contains("(test)")
    };
    attributes.iter().any(is)
}

/// Code as one line.
fn text(code: &impl ToTokens) -> String {
    code.to_token_stream().to_string()
}

/// Reads a module whose own modules are in `directory`.
fn read(code: &str, directory: &Path) -> Module {
    let file = syn::parse_file(code).expect("code that compiles");
    module(file.items, directory)
}

fn module(items: Vec<Item>, directory: &Path) -> Module {
    let mut module = Module::default();
    for item in items {
        if let Item::Mod(inner) = &item {
            if is_of_tests(&inner.attrs) {
                continue;
            }
            let name = inner.ident.to_string();
            let below = directory.join(&name);
            let read = match &inner.content {
                Some((_, items)) => self::module(items.clone(), &below),
                None => {
                    let places = [directory.join(format!("{name}.rs")), below.join("mod.rs")];
                    let code = places.iter().find_map(|place| fs::read_to_string(place).ok());
                    // One that has a path of its own is not followed.
                    code.map(|code| self::read(&code, &below)).unwrap_or_default()
                }
            };
            module.modules.insert(name, read);
        }
        module.items.push(item);
    }
    module
}

/// What a `use` names: the path, and the name that it has here; none: everything there.
fn uses(tree: &UseTree, path: &[String], found: &mut Vec<(Vec<String>, Option<String>)>) {
    let and = |name: &syn::Ident| [path, &[name.to_string()]].concat();
    match tree {
        UseTree::Path(inner) => uses(&inner.tree, &and(&inner.ident), found),
        UseTree::Name(name) => found.push((and(&name.ident), Some(name.ident.to_string()))),
        UseTree::Rename(name) => found.push((and(&name.ident), Some(name.rename.to_string()))),
        UseTree::Glob(_) => found.push((path.to_vec(), None)),
        UseTree::Group(group) => group.items.iter().for_each(|tree| uses(tree, path, found)),
    }
}

/// What is listed of one crate.
struct Listing<'a> {
    root: &'a Module,
    /// Implementations, by the name of their type.
    implementations: BTreeMap<String, Vec<&'a syn::ItemImpl>>,
    lines: BTreeSet<String>,
}

fn implementations<'a>(module: &'a Module, found: &mut BTreeMap<String, Vec<&'a syn::ItemImpl>>) {
    for item in &module.items {
        if let Item::Impl(implementation) = item
            && let syn::Type::Path(path) = &*implementation.self_ty
            && let Some(last) = path.path.segments.last()
        {
            found.entry(last.ident.to_string()).or_default().push(implementation);
        }
    }
    module.modules.values().for_each(|inner| implementations(inner, found));
}

impl<'a> Listing<'a> {
    fn of(root: &'a Module) -> BTreeSet<String> {
        let mut found = BTreeMap::new();
        implementations(root, &mut found);
        let mut listing = Listing { root, implementations: found, lines: BTreeSet::new() };
        listing.module(root, &[], "", 0);
        listing.lines
    }

    fn line(&mut self, line: String) {
        self.lines.insert(line.split_whitespace().collect::<Vec<_>>().join(" "));
    }

    /// The module at a path of names from the root.
    fn at(&self, path: &[String]) -> Option<&'a Module> {
        path.iter().try_fold(self.root, |module, name| module.modules.get(name))
    }

    /// Everything public in a module: `real` is where it is, `shown` what it is called outside.
    fn module(&mut self, module: &'a Module, real: &[String], shown: &str, depth: usize) {
        if depth > DEPTH_MAX {
            return;
        }
        for item in &module.items {
            self.item(item, None, real, shown, depth);
        }
    }

    /// One item, if it is public; under another name, if it has one.
    fn item(&mut self, item: &'a Item, name: Option<&str>, real: &[String], shown: &str, depth: usize) {
        match item {
            Item::Mod(inner) if is_public(&inner.vis) => {
                let name = inner.ident.to_string();
                let real = [real, std::slice::from_ref(&name)].concat();
                if let Some(module) = self.at(&real) {
                    self.module(module, &real, &format!("{shown}::{name}"), depth + 1);
                }
            }
            Item::Use(reexport) if is_public(&reexport.vis) => {
                let mut found = Vec::new();
                uses(&reexport.tree, &[], &mut found);
                found.into_iter().for_each(|(path, name)| self.reexport(&path, name.as_deref(), real, shown, depth));
            }
            Item::Fn(function) if is_public(&function.vis) => {
                let mut signature = function.sig.clone();
                signature.ident = renamed(&signature.ident, name);
                self.line(format!("{shown}: {}", text(&signature)));
            }
            Item::Struct(found) if is_public(&found.vis) => {
                let name = renamed(&found.ident, name);
                let is_open = found.fields.iter().all(|field| is_public(&field.vis));
                let ends = if is_open { "" } else { " .." };
                self.line(format!("{shown}: struct {name}{}{ends} {}", text(&found.generics), marks(&found.attrs)));
                self.fields(&format!("{shown}::{name}"), &found.fields, false);
                self.implemented(&found.ident.to_string(), &format!("{shown}::{name}"));
            }
            Item::Enum(found) if is_public(&found.vis) => {
                let name = renamed(&found.ident, name);
                self.line(format!("{shown}: enum {name}{} {}", text(&found.generics), marks(&found.attrs)));
                for variant in &found.variants {
                    let value = variant
                        .discriminant
                        .as_ref()
                        .map_or_else(String::new, |(_, value)| format!(" = {}", text(value)));
                    let at = format!("{shown}::{name}::{}", variant.ident);
                    self.line(format!("{at}{value}"));
                    self.fields(&at, &variant.fields, true);
                }
                self.implemented(&found.ident.to_string(), &format!("{shown}::{name}"));
            }
            Item::Trait(found) if is_public(&found.vis) => {
                let name = renamed(&found.ident, name);
                self.line(format!("{shown}: trait {name}{} : {}", text(&found.generics), text(&found.supertraits)));
                for item in &found.items {
                    let line = match item {
                        TraitItem::Fn(function) => {
                            let given = if function.default.is_some() { " { .. }" } else { "" };
                            text(&function.sig) + given
                        }
                        other => text(other),
                    };
                    self.line(format!("{shown}::{name}: {line}"));
                }
            }
            Item::Const(found) if is_public(&found.vis) => {
                self.line(format!("{shown}: const {}: {}", renamed(&found.ident, name), text(&found.ty)));
            }
            Item::Static(found) if is_public(&found.vis) => {
                self.line(format!("{shown}: static {}: {}", renamed(&found.ident, name), text(&found.ty)));
            }
            Item::Type(found) if is_public(&found.vis) => {
                let name = renamed(&found.ident, name);
                self.line(format!("{shown}: type {name}{} = {}", text(&found.generics), text(&found.ty)));
            }
            Item::Macro(found) if found.attrs.iter().any(|attribute| attribute.path().is_ident("macro_export")) => {
                let name = found.ident.as_ref().map(ToString::to_string).unwrap_or_default();
                self.line(format!(": macro {name}"));
            }
            _ => {}
        }
    }

    fn fields(&mut self, of: &str, fields: &Fields, are_public: bool) {
        for (place, field) in fields.iter().enumerate() {
            if are_public || is_public(&field.vis) {
                let name = field.ident.as_ref().map_or_else(|| place.to_string(), ToString::to_string);
                self.line(format!("{of}.{name}: {}", text(&field.ty)));
            }
        }
    }

    /// Methods of a type, and traits that it has.
    fn implemented(&mut self, name: &str, shown: &str) {
        for implementation in self.implementations.get(name).cloned().unwrap_or_default() {
            if is_of_tests(&implementation.attrs) {
                continue;
            }
            if let Some((_, path, _)) = &implementation.trait_ {
                self.line(format!("{shown}: impl {}", text(path)));
                continue;
            }
            for item in &implementation.items {
                match item {
                    ImplItem::Fn(function) if is_public(&function.vis) => {
                        self.line(format!("{shown}: {}", text(&function.sig)))
                    }
                    ImplItem::Const(found) if is_public(&found.vis) => {
                        self.line(format!("{shown}: const {}: {}", found.ident, text(&found.ty)));
                    }
                    _ => {}
                }
            }
        }
    }

    /// What `pub use` shows of a path.
    fn reexport(&mut self, path: &[String], name: Option<&str>, real: &[String], shown: &str, depth: usize) {
        if depth > DEPTH_MAX {
            return;
        }
        let Some(target) = self.resolved(path, real) else {
            let of = path.join("::");
            return self.line(format!("{shown}: use {of} as {}", name.unwrap_or("*")));
        };
        let Some(name) = name else {
            if let Some(module) = self.at(&target) {
                self.module(module, &target, shown, depth + 1);
            }
            return;
        };
        if let Some(module) = self.at(&target) {
            return self.module(module, &target, &format!("{shown}::{name}"), depth + 1);
        }
        let Some((last, above)) = target.split_last() else { return };
        let Some(module) = self.at(above) else { return };
        for item in &module.items {
            match item {
                // It is shown there by the same way.
                Item::Use(other) if is_public(&other.vis) => {
                    let mut found = Vec::new();
                    uses(&other.tree, &[], &mut found);
                    for (path, _) in found.into_iter().filter(|(_, found)| found.as_deref() == Some(last)) {
                        self.reexport(&path, Some(name), above, shown, depth + 1);
                    }
                }
                item if named(item).is_some_and(|found| found == *last) => {
                    self.item(item, Some(name), above, shown, depth)
                }
                _ => {}
            }
        }
    }

    /// Where a path leads within this crate. `None`: to another one.
    fn resolved(&self, path: &[String], real: &[String]) -> Option<Vec<String>> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" => Some([real, rest].concat()),
            "super" => Some([&real[..real.len().saturating_sub(1)], rest].concat()),
            name => self.at(real)?.modules.contains_key(name).then(|| [real, path].concat()),
        }
    }
}

fn renamed(found: &syn::Ident, name: Option<&str>) -> syn::Ident {
    name.map_or_else(|| found.clone(), |name| syn::Ident::new(name, found.span()))
}

/// What is derived, and how a type lies in memory.
fn marks(attributes: &[syn::Attribute]) -> String {
    let told = |attribute: &&syn::Attribute| {
        ["derive", "repr", "non_exhaustive"].iter().any(|name| attribute.path().is_ident(name))
    };
    attributes.iter().filter(told).map(|attribute| text(&attribute.meta)).collect::<Vec<_>>().join(" ")
}

fn named(item: &Item) -> Option<String> {
    Some(match item {
        Item::Fn(found) => found.sig.ident.to_string(),
        Item::Struct(found) => found.ident.to_string(),
        Item::Enum(found) => found.ident.to_string(),
        Item::Trait(found) => found.ident.to_string(),
        Item::Const(found) => found.ident.to_string(),
        Item::Static(found) => found.ident.to_string(),
        Item::Type(found) => found.ident.to_string(),
        _ => return None,
    })
}

/// What of a version has to stay the same in compatible ones.
fn compatible_part(version: &str) -> Vec<&str> {
    let parts: Vec<&str> = version.split('.').collect();
    let count = parts.iter().position(|part| *part != "0").map_or(parts.len(), |place| place + 1);
    parts.into_iter().take(count).collect()
}

/// Why a list may not become another one. `None`: it may.
fn objection(kept: &str, version: &str, is_released: bool, gone: &[String]) -> Option<String> {
    let is_compatible = compatible_part(kept) == compatible_part(version);
    (!gone.is_empty() && is_released && is_compatible).then(|| {
        format!("{version} would be compatible with {kept}, which is released and has more: raise the version")
    })
}

#[test]
fn what_the_crates_offer_is_listed_and_goes_only_with_a_version() {
    let root = workspace();
    let manifest = fs::read_to_string(root.join("Cargo.toml")).expect("the workspace's manifest");
    let version =
        manifest.lines().find_map(|line| line.strip_prefix("version = \"")).expect("a version").trim_end_matches('"');
    let changes = fs::read_to_string(root.join("CHANGELOG.md")).expect("the changelog");
    for package in PUBLISHED {
        let directory = root.join("crates").join(package);
        let file = directory.join("public-api.txt");
        let code = fs::read_to_string(directory.join("src/lib.rs")).expect("its root");
        let crate_root = read(&code, &directory.join("src"));
        let lines = Listing::of(&crate_root);
        assert!(lines.len() > 20, "{package} offers {lines:?}");
        let kept = fs::read_to_string(&file).unwrap_or_default();
        let kept_version = kept.lines().next().and_then(|line| line.rsplit(' ').next()).unwrap_or(version).to_owned();
        let listed: BTreeSet<String> = kept.lines().skip(1).map(str::to_owned).collect();
        let (added, gone) = added_and_gone(&listed, &lines);
        let is_released = !changes.contains(&format!("## {kept_version} (unreleased)"));
        if let Some(why) = objection(&kept_version, version, is_released, &gone) {
            panic!("{package}: {why}: {gone:#?}");
        }
        if std::env::var_os("QANAT_UPDATE").is_some() {
            let all: String = lines.iter().map(|line| format!("{line}\n")).collect();
            fs::write(&file, format!("# What the crate offers in version {version}\n{all}")).expect("written");
            continue;
        }
        assert!(
            added.is_empty() && gone.is_empty(),
            "{} is not what the crate offers: look at the difference, and run this with QANAT_UPDATE=1. New: {added:#?} Gone: {gone:#?}",
            file.display()
        );
    }
}

#[test]
fn the_listing_has_what_is_reached_from_outside_and_nothing_else() {
    let code = "
        mod inner { pub struct Seen { pub open: u8, shut: u8 } pub struct Unseen; pub fn seen(a: u8) -> u8 { a }
                    impl Seen { pub fn new() -> Seen { Seen { open: 0, shut: 0 } } fn own(&self) {} } impl Clone for Seen { }
                    pub mod deep { pub enum Kind { One = 1, Two(u8) } } }
        pub use inner::{Seen, seen as known};
        pub use inner::deep;
        pub use other::Thing;
        pub(crate) fn hidden() {}
        #[cfg(test)] pub mod tests { pub fn a_test() {} }
        pub mod shown { pub trait Can { fn must(&self); fn may(&self) {} } pub use super::inner::deep::*; }
    ";
    let module = read(code, Path::new("/nowhere"));
    let lines = Listing::of(&module);
    let expected = [
        ": fn known (a : u8) -> u8",
        ": struct Seen ..",
        ": use other::Thing as Thing",
        "::Seen.open: u8",
        "::Seen: fn new () -> Seen",
        "::Seen: impl Clone",
        "::deep: enum Kind",
        "::deep::Kind::One = 1",
        "::deep::Kind::Two",
        "::deep::Kind::Two.0: u8",
        "::shown: enum Kind",
        "::shown: trait Can :",
        "::shown::Can: fn may (& self) { .. }",
        "::shown::Can: fn must (& self)",
        "::shown::Kind::One = 1",
        "::shown::Kind::Two",
        "::shown::Kind::Two.0: u8",
    ];
    assert_eq!(lines.iter().map(String::as_str).collect::<Vec<_>>(), expected);
}

#[test]
fn a_line_goes_only_with_an_incompatible_version_once_it_is_released() {
    let gone = ["::Seen: fn new ()".to_owned()];
    let may = |kept, version, is_released, gone: &[String]| objection(kept, version, is_released, gone).is_none();
    assert!(may("0.1.0", "0.1.0", false, &gone) && may("0.1.0", "0.1.1", true, &[]));
    assert!(
        !may("0.1.0", "0.1.0", true, &gone)
            && !may("0.1.0", "0.1.7", true, &gone)
            && !may("1.2.0", "1.3.0", true, &gone)
    );
    assert!(
        may("0.1.7", "0.2.0", true, &gone) && may("1.2.0", "2.0.0", true, &gone) && may("0.0.1", "0.0.2", true, &gone)
    );
}
