//! Which crates may use which: by manifests, by paths in code, and by files that one compiles of another.

use super::repository::{Package, is_test, package_of, packages, parsed, sources};
use super::{LAYERS, TEST_LIBRARIES};
use qanat_tests::e2e::workspace;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use syn::visit::Visit;

/// Each package's height, from the ground up.
fn heights() -> BTreeMap<&'static str, usize> {
    LAYERS.iter().enumerate().flat_map(|(height, names)| names.iter().map(move |name| (*name, height))).collect()
}

/// Our crates that a manifest names, tests' included.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let mut section = "";
    let mut found = BTreeSet::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line;
        }
        let name = line.split(['.', ' ', '=']).next().unwrap_or_default();
        let is_for_tests = section == "[dev-dependencies]" && TEST_LIBRARIES.contains(&name);
        if section.ends_with("dependencies]") && (name == "qanat" || name.starts_with("qanat-")) && !is_for_tests {
            found.insert(name.to_owned());
        }
    }
    found
}

/// Crates that paths in code begin with, by their names in code.
#[derive(Default)]
struct Crates(BTreeSet<String>);

impl Crates {
    fn tree(&mut self, tree: &syn::UseTree) {
        match tree {
            syn::UseTree::Path(path) => self.name(&path.ident),
            syn::UseTree::Name(name) => self.name(&name.ident),
            syn::UseTree::Rename(name) => self.name(&name.ident),
            syn::UseTree::Glob(_) => {}
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.tree(tree)),
        }
    }

    fn name(&mut self, name: &syn::Ident) {
        let name = name.to_string();
        if name == "qanat" || name.starts_with("qanat_") {
            self.0.insert(name);
        }
    }
}

impl<'code> Visit<'code> for Crates {
    fn visit_item_use(&mut self, item: &'code syn::ItemUse) {
        self.tree(&item.tree);
    }

    fn visit_item_extern_crate(&mut self, item: &'code syn::ItemExternCrate) {
        self.name(&item.ident);
    }

    fn visit_path(&mut self, path: &'code syn::Path) {
        // A name alone is something of the file itself.
        if path.segments.len() > 1
            && let Some(first) = path.segments.first()
        {
            self.name(&first.ident);
        }
        syn::visit::visit_path(self, path);
    }
}

fn crates_named(file: &Path, text: &str) -> BTreeSet<String> {
    let mut crates = Crates::default();
    crates.visit_file(&parsed(file, text));
    crates.0
}

/// Words of a text that may be the names of our crates.
fn words(text: &str) -> BTreeSet<String> {
    let words = text.split(|character: char| !character.is_ascii_alphanumeric() && character != '_');
    words.filter(|word| word.starts_with("qanat")).map(str::to_owned).collect()
}

/// What a package uses and may not.
fn too_high(package: &str, used: &BTreeSet<String>, heights: &BTreeMap<&str, usize>) -> Vec<String> {
    let Some(height) = heights.get(package) else {
        return vec![format!("{package} has no layer: give it one in tests/tests/tidy/main.rs")];
    };
    let used = used.iter().filter(|name| *name != package);
    let wrong = used.filter(|name| heights.get(name.as_str()).is_none_or(|below| below >= height));
    wrong.map(|name| format!("{package} may not use {name}")).collect()
}

#[test]
fn crates_use_only_crates_below_them() {
    let heights = heights();
    let wrong: Vec<String> = packages()
        .iter()
        .flat_map(|package| too_high(&package.name, &dependencies(&package.manifest), &heights))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The same by what the code says: tests, examples and documentation are of the crate that they are in.
#[test]
fn code_names_only_crates_below_its_own() {
    let (root, packages, heights) = (workspace(), packages(), heights());
    let known: BTreeMap<String, &str> =
        packages.iter().map(|package| (package.identifier(), package.name.as_str())).collect();
    let mut wrong = Vec::new();
    for (file, text) in sources() {
        let Some(package) = package_of(&packages, &root.join(&file)) else { continue };
        // What is no crate is a name of the file's own, or one that the compiler refuses.
        let judge = |names: BTreeSet<String>| {
            let used = names
                .iter()
                .filter_map(|name| known.get(name))
                .filter(|name| !TEST_LIBRARIES.contains(*name) || !is_test(&file));
            too_high(&package.name, &used.map(|name| (*name).to_owned()).collect(), &heights)
        };
        // Most files have not even a word that would be wrong, and need not be read as code.
        let found = if judge(words(&text)).is_empty() { Vec::new() } else { judge(crates_named(&file, &text)) };
        wrong.extend(found.into_iter().map(|what| format!("{}: {what}", file.display())));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// `a/b/../c` as `a/c`.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

/// Files that `file` compiles by a `path` attribute although they are of another package.
fn foreign_files(packages: &[Package], file: &Path, text: &str) -> Vec<PathBuf> {
    let named = text.lines().filter_map(|line| line.trim().strip_prefix("#[path = \"")?.strip_suffix("\"]"));
    let folder = file.parent().unwrap_or(Path::new(""));
    let name = |path: &Path| package_of(packages, path).map(|package| package.name.clone());
    named.map(|path| without_dots(&folder.join(path))).filter(|path| name(path) != name(file)).collect()
}

#[test]
fn no_crate_compiles_the_files_of_another() {
    let (root, packages) = (workspace(), packages());
    let wrong: Vec<String> = sources()
        .iter()
        .flat_map(|(file, text)| {
            let foreign = foreign_files(&packages, &root.join(file), text);
            foreign.into_iter().map(|path| format!("{}: {}", file.display(), path.display())).collect::<Vec<_>>()
        })
        .collect();
    assert!(wrong.is_empty(), "use the other crate instead: {wrong:#?}");
}

#[test]
fn uses_of_crates_above_are_found() {
    let manifest = "[package]\nname = \"qanat-low\"\n[dependencies]\nqanat-ground.workspace = true\n\
                    [dev-dependencies]\nqanat-high = { path = \"../high\" }\nqanat-tests.workspace = true\n";
    let heights = BTreeMap::from([("qanat-ground", 0), ("qanat-low", 1), ("qanat-peer", 1), ("qanat-high", 2)]);
    let used = dependencies(manifest);
    assert_eq!(too_high("qanat-low", &used, &heights), ["qanat-low may not use qanat-high"]);
    let used = BTreeSet::from(["qanat-low", "qanat-peer", "qanat-unknown"].map(str::to_owned));
    assert_eq!(too_high("qanat-low", &used, &heights).len(), 2, "itself it may use");
    assert_eq!(too_high("qanat-unknown", &used, &heights).len(), 1, "no layer");

    let code = "use std::fmt; use {qanat_a::B, qanat::C as D};\nfn f() -> qanat_e::F { let qanat_g = 1; qanat_h::i::<qanat_j::K>(qanat_g) }\n\
                #[cfg(test)] mod tests { use qanat_l::*; }\n";
    let found: Vec<String> = crates_named(Path::new("a.rs"), code).into_iter().collect();
    assert_eq!(found, ["qanat", "qanat_a", "qanat_e", "qanat_h", "qanat_j", "qanat_l"]);
    assert!(crates_named(Path::new("a.rs"), code).is_subset(&words(code)));

    let package =
        |name: &str| Package { name: name.to_owned(), directory: format!("/r/{name}").into(), manifest: String::new() };
    let packages = [package("a"), package("b")];
    let text = "#[path = \"../src/own.rs\"]\nmod own;\n#[path = \"../../b/src/theirs.rs\"]\nmod theirs;\n";
    let found = foreign_files(&packages, Path::new("/r/a/tests/one.rs"), text);
    assert_eq!(found, [Path::new("/r/b/src/theirs.rs")]);
}
