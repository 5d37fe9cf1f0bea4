//! Rooms: which files of a crate import each other in circles, and how many files a folder has. What is in circles today is listed
//! in `circles.txt`, and that list may only shrink.

use super::{is_test, packages, rust_files};
use qanat_tests::e2e::workspace;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use syn::visit::Visit;

/// How the list begins.
const HEAD: &str =
    "# Files that import each other in circles. `QANAT_UPDATE=1` takes those away that do not any more.\n";

/// Files in a folder, at most.
const FOLDER_FILES_MAX: usize = 24;

/// A module by its path in the crate; the crate's root is empty.
type Module = Vec<String>;

/// The module that a file of a crate is.
fn module_of(file: &Path) -> Module {
    let mut names: Module = file.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if names.last().is_some_and(|name| matches!(name.as_str(), "mod" | "lib" | "main")) {
        names.pop();
    }
    names
}

/// What a file's code names within its crate.
struct Named<'a> {
    /// The modules that are files.
    files: &'a BTreeMap<Module, PathBuf>,
    own: Module,
    /// Modules within the file, around where the visit is.
    inner: Vec<String>,
    found: BTreeSet<Module>,
}

impl Named<'_> {
    fn name(&mut self, path: &[String]) {
        let here = [self.own.as_slice(), &self.inner].concat();
        let (mut from, mut rest) = (here, path);
        match path.first().map(String::as_str) {
            Some("crate") => (from, rest) = (Vec::new(), &path[1..]),
            Some("self") => rest = &path[1..],
            Some("super") => {
                while let Some((first, others)) = rest.split_first()
                    && first == "super"
                {
                    from.pop();
                    rest = others;
                }
            }
            // A module below this one, or something from elsewhere.
            _ => {}
        }
        let starts_here = path.len() == rest.len();
        let mut module = from;
        let mut steps = 0;
        for part in rest {
            module.push(part.clone());
            if !self.files.contains_key(&module) {
                module.pop();
                break;
            }
            steps += 1;
        }
        if (!starts_here || steps > 0) && module != self.own && self.files.contains_key(&module) {
            self.found.insert(module);
        }
    }

    fn name_tree(&mut self, before: &[String], tree: &syn::UseTree) {
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.name_tree(&with(&path.ident), &path.tree),
            syn::UseTree::Name(name) => self.name(&with(&name.ident)),
            syn::UseTree::Rename(name) => self.name(&with(&name.ident)),
            syn::UseTree::Glob(_) => self.name(before),
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.name_tree(before, tree)),
        }
    }
}

/// Whether something is there for tests only.
fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string().starts_with("test"))
    })
}

impl<'code> Visit<'code> for Named<'_> {
    fn visit_item_mod(&mut self, module: &'code syn::ItemMod) {
        if module.content.is_none() || is_for_tests(&module.attrs) {
            return;
        }
        self.inner.push(module.ident.to_string());
        syn::visit::visit_item_mod(self, module);
        self.inner.pop();
    }

    fn visit_item_use(&mut self, item: &'code syn::ItemUse) {
        if !is_for_tests(&item.attrs) {
            self.name_tree(&[], &item.tree);
        }
    }

    fn visit_path(&mut self, path: &'code syn::Path) {
        if path.segments.len() > 1 {
            let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.name(&names);
        }
        syn::visit::visit_path(self, path);
    }

    /// Who may see something is no use of it.
    fn visit_vis_restricted(&mut self, _: &'code syn::VisRestricted) {}

    fn visit_item_fn(&mut self, function: &'code syn::ItemFn) {
        if !is_for_tests(&function.attrs) {
            syn::visit::visit_item_fn(self, function);
        }
    }
}

/// For each file of a crate, the files of it that its code names.
fn imports(source: &Path) -> BTreeMap<PathBuf, BTreeSet<PathBuf>> {
    let inside = |file: PathBuf| file.strip_prefix(source).map(Path::to_owned).expect("a file of the crate");
    let files: BTreeMap<Module, PathBuf> = rust_files(source)
        .into_iter()
        .map(inside)
        .filter(|file| !is_test(file) && !file.starts_with("bin"))
        .map(|file| (module_of(&file), file))
        .collect();
    let of = |(module, file): (&Module, &PathBuf)| {
        let text = fs::read_to_string(source.join(file)).expect("readable source");
        let code = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let mut named = Named { files: &files, own: module.clone(), inner: Vec::new(), found: BTreeSet::new() };
        named.visit_file(&code);
        (file.clone(), named.found.iter().filter_map(|module| files.get(module).cloned()).collect())
    };
    files.iter().map(of).collect()
}

/// Files from which a way of imports leads back to themselves.
fn in_circles(imports: &BTreeMap<PathBuf, BTreeSet<PathBuf>>) -> BTreeSet<PathBuf> {
    let returns = |start: &PathBuf| {
        let mut seen: BTreeSet<&PathBuf> = BTreeSet::new();
        let mut pending: Vec<&PathBuf> = imports[start].iter().collect();
        while let Some(file) = pending.pop() {
            if file == start {
                return true;
            }
            if seen.insert(file) {
                pending.extend(&imports[file]);
            }
        }
        false
    };
    imports.keys().filter(|file| returns(file)).cloned().collect()
}

#[test]
fn no_file_imports_in_a_circle_but_those_listed() {
    let root = workspace();
    let mut found: BTreeSet<String> = BTreeSet::new();
    for package in packages() {
        let source = package.directory.join("src");
        for file in in_circles(&imports(&source)) {
            let file = source.join(file);
            found.insert(file.strip_prefix(&root).expect("a file of the repository").display().to_string());
        }
    }
    let list = root.join("tests/tests/tidy/circles.txt");
    let listed: BTreeSet<String> = fs::read_to_string(&list)
        .expect("the list")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(str::to_owned)
        .collect();
    if std::env::var_os("QANAT_UPDATE").is_some() {
        let text: String = listed.intersection(&found).map(|file| format!("{file}\n")).collect();
        fs::write(&list, format!("{HEAD}{text}")).expect("the list");
    }
    let new: Vec<&String> = found.difference(&listed).collect();
    assert!(new.is_empty(), "these import each other in a circle, and did not before: {new:#?}");
    let gone: Vec<&String> = listed.difference(&found).collect();
    assert!(gone.is_empty(), "no more in a circle, so take them from {}: {gone:#?}", list.display());
}

#[test]
fn folders_have_few_files() {
    let root = workspace();
    let mut folders: BTreeMap<PathBuf, usize> = BTreeMap::new();
    for package in packages() {
        let files = rust_files(&package.directory.join("src"));
        for folder in files.iter().filter(|file| !is_test(file)).filter_map(|file| file.parent()) {
            *folders.entry(folder.strip_prefix(&root).unwrap_or(folder).to_owned()).or_default() += 1;
        }
    }
    folders.retain(|_, count| *count > FOLDER_FILES_MAX);
    assert!(folders.is_empty(), "split these folders (at most {FOLDER_FILES_MAX} files): {folders:#?}");
}

#[test]
fn circles_are_found() {
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| {
        let file = directory.path().join(name);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(file, text).expect("a file");
    };
    write("lib.rs", "mod a; mod b; mod c; mod d;\npub use a::A;");
    write("a.rs", "use crate::b::{self, B}; pub struct A(B);");
    write("b.rs", "use std::fmt; pub fn f() { let _ = super::c::g::<u8>(); }");
    write("c/mod.rs", "mod below; pub fn g<T>() { below::h() }\n#[cfg(test)] mod tests { use crate::d::D; }");
    write("c/below.rs", "use crate::a::A; pub fn h() {}");
    write("d.rs", "use crate::c::g; pub struct D;");
    let found: Vec<String> =
        in_circles(&imports(directory.path())).iter().map(|file| file.display().to_string()).collect();
    assert_eq!(found, ["a.rs", "b.rs", "c/below.rs", "c/mod.rs"]);
}
