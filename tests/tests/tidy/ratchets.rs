//! What is on its way out: errors that are texts, and reasons for unsafe code that give none. How often each package has them is
//! listed, and the lists may only shrink.

use super::lists::{Counts, check};
use super::repository::{is_for_tests, is_test, package_of, packages, parsed, sources};
use qanat_tests::e2e::workspace;
use std::path::Path;
use syn::visit::Visit;

/// The command's own package: what it says to its users are texts.
const COMMAND: &str = "qanat-cli";

/// Counts `Result<_, String>`, except where it is for tests only.
#[derive(Default)]
struct TextErrors(usize);

impl<'code> Visit<'code> for TextErrors {
    fn visit_item_mod(&mut self, module: &'code syn::ItemMod) {
        if !is_for_tests(&module.attrs) {
            syn::visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_fn(&mut self, function: &'code syn::ItemFn) {
        if !is_for_tests(&function.attrs) {
            syn::visit::visit_item_fn(self, function);
        }
    }

    fn visit_path_segment(&mut self, segment: &'code syn::PathSegment) {
        if segment.ident == "Result"
            && let syn::PathArguments::AngleBracketed(arguments) = &segment.arguments
            && let Some(syn::GenericArgument::Type(syn::Type::Path(error))) = arguments.args.iter().nth(1)
            && error.path.segments.last().is_some_and(|last| last.ident == "String")
        {
            self.0 += 1;
        }
        syn::visit::visit_path_segment(self, segment);
    }
}

fn text_errors(file: &Path, text: &str) -> usize {
    let mut found = TextErrors::default();
    // Most files have none, and need not be read as code.
    if !text.contains("String>") && !text.contains("String,\n") {
        return 0;
    }
    found.visit_file(&parsed(file, text));
    found.0
}

/// How often a comment gives as its reason that its caller says so, which names no invariant.
fn empty_reasons(text: &str) -> usize {
    let comments: Vec<&str> =
        text.lines().filter_map(|line| Some(line.split_once("//")?.1.trim_start_matches(['/', ' ']))).collect();
    let words = ["as the caller", "says"].join(" ");
    comments.join(" ").to_lowercase().matches(words.as_str()).count()
}

/// By package, of all files that `count` is asked about.
fn by_package(count: impl Fn(&Path, &str) -> usize) -> Counts {
    let (root, packages) = (workspace(), packages());
    let mut counts = Counts::new();
    for (file, text) in sources() {
        let found = count(&file, &text);
        if found > 0
            && let Some(package) = package_of(&packages, &root.join(&file))
        {
            *counts.entry(package.name.clone()).or_default() += found;
        }
    }
    counts
}

#[test]
fn errors_are_types() {
    let mut found = by_package(|file, text| if is_test(file) { 0 } else { text_errors(file, text) });
    found.remove(COMMAND);
    let list = workspace().join("tests/tests/tidy/text_errors.txt");
    check(&list, "Packages with errors that are texts (`Result<_, String>`), and how many.", &found, true);
}

#[test]
fn unsafe_code_names_what_it_relies_on() {
    let found = by_package(|_, text| empty_reasons(text));
    let list = workspace().join("tests/tests/tidy/empty_reasons.txt");
    check(&list, "Packages whose reasons for unsafe code are that the caller says so, and how many.", &found, true);
}

#[test]
fn both_are_found() {
    let code = "fn a() -> Result<Option<u8>, String> { b() }\ntype R<T> = std::result::Result<T, String>;\n\
                struct S { f: Box<dyn Fn() -> Result<(), std::string::String>> }\nfn c() -> Result<String, u8> { d() }\n\
                #[cfg(test)]\nmod tests { fn t() -> Result<(), String> { Ok(()) } }\n";
    assert_eq!(text_errors(Path::new("a.rs"), code), 3);
    let say = ["caller", "says"].join(" ");
    let code = format!(
        "// SAFETY: as the {say}.\nf();\n// SAFETY: within it, As the\n    // {say}.\n// SAFETY: the lock is held.\n"
    );
    assert_eq!(empty_reasons(&code), 2);
}
