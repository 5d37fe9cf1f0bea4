//! Rooms: which files of a crate import each other in circles, and how many files a folder has. What is in circles today is listed
//! in `circles.txt`, and that list may only shrink.

use super::lists::{Counts, check, listed};
use super::repository::{is_for_tests, is_test, packages, parsed, rust_files};
use super::{FOLDER_FILES_MAX, FOLDER_OF_CASES, WITHOUT_CIRCLES};
use qanat_tests::e2e::workspace;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use syn::visit::Visit;

/// The list of files in circles.
const LIST: &str = "tests/tests/tidy/circles.txt";
/// How it begins.
const HEAD: &str = "Files that import each other in circles.";

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
        let code = parsed(file, &text);
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
    let mut found = Counts::new();
    for package in packages() {
        let source = package.directory.join("src");
        for file in in_circles(&imports(&source)) {
            let file = source.join(file);
            found.insert(file.strip_prefix(&root).expect("a file of the repository").display().to_string(), 1);
        }
    }
    check(&root.join(LIST), HEAD, &found, false);
}

/// Lines of the list that are of places where circles were brought to an end.
fn back_again(listed: &Counts) -> Vec<&String> {
    listed.keys().filter(|file| WITHOUT_CIRCLES.iter().any(|place| file.starts_with(place))).collect()
}

#[test]
fn places_without_circles_stay_so() {
    let listed = listed(&workspace().join(LIST));
    let back = back_again(&listed);
    assert!(back.is_empty(), "these had no circles any more: {back:#?}");
}

/// Folders of a package with more files than they may have. Tests in a package's sources are not counted.
fn full_folders(directory: &Path) -> BTreeMap<PathBuf, usize> {
    let mut folders: BTreeMap<PathBuf, usize> = BTreeMap::new();
    for file in rust_files(&directory.join("src")) {
        let file = file.strip_prefix(directory).expect("a file of the package");
        if let Some(folder) = file.parent().filter(|_| !is_test(file)) {
            *folders.entry(folder.to_owned()).or_default() += 1;
        }
    }
    folders.retain(|_, count| *count > FOLDER_FILES_MAX);
    folders
}

#[test]
fn folders_have_few_files() {
    let root = workspace();
    let mut full = BTreeMap::new();
    for package in packages() {
        let found = full_folders(&package.directory).into_iter();
        full.extend(found.map(|(folder, count)| (package.directory.join(folder), count)));
    }
    full.remove(&root.join(FOLDER_OF_CASES));
    assert!(full.is_empty(), "split these folders (at most {FOLDER_FILES_MAX} files): {full:#?}");
}

#[test]
fn full_folders_are_found() {
    let directory = tempfile::tempdir().expect("a directory");
    for folder in ["src/a", "src/b", "src/tests"] {
        fs::create_dir_all(directory.path().join(folder)).expect("a folder");
    }
    for number in 0..=FOLDER_FILES_MAX {
        fs::write(directory.path().join(format!("src/a/f{number}.rs")), "").expect("a file");
        fs::write(directory.path().join(format!("src/tests/f{number}.rs")), "").expect("a file");
        fs::write(directory.path().join(format!("src/b/{}{number}.rs", if number == 0 { "tests" } else { "f" })), "")
            .expect("a file");
    }
    fs::rename(directory.path().join("src/b/tests0.rs"), directory.path().join("src/b/tests.rs")).expect("a file");
    assert_eq!(full_folders(directory.path()), BTreeMap::from([(PathBuf::from("src/a"), FOLDER_FILES_MAX + 1)]));
}

#[test]
fn a_circle_can_not_come_back() {
    let listed = Counts::from([("crates/cli/src/a.rs".to_owned(), 1), ("tests/tests/a.rs".to_owned(), 1)]);
    assert_eq!(back_again(&listed), ["crates/cli/src/a.rs"]);
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
