//! The house rules, checked on the text of the code. No root needed. This file has what the rules are about: the layers of the crates,
//! where `unsafe` may be, how long files and functions may get. Each rule has a test that shows that it finds what it forbids.
//!
//! * [`layers`]: which crates may use which
//! * [`rooms`]: circles of imports within a crate, files in a folder
//! * [`lengths`]: of files and functions
//! * [`programs`]: where `unsafe` may be, and that every test program is run
//! * [`ratchets`]: errors that are texts, reasons for unsafe code that give none
//! * [`duplicates`]: what two files have in common
//! * [`documents`]: nothing is left for later, and documents speak of what is there
//! * [`public_api`]: what the crates that can be published offer
//! * [`lists`]: what breaks a rule today, in lists that may only shrink
#![forbid(unsafe_code)]

mod documents;
mod duplicates;
mod layers;
mod lengths;
mod lists;
mod programs;
mod public_api;
mod ratchets;
mod repository;
mod rooms;

/// From the ground up: a crate may use those of earlier rows, and of its own row none.
const LAYERS: [&[&str]; 13] = [
    &["qanat-wire", "qanat-launch"],
    &["qanat-nic"],
    &["qanat-api"],
    &["qanat-abi", "qanat-disk"],
    &["qanat-stack"],
    &["qanat-store", "qanat-tls", "qanat-http2", "qanat-control", "qanat-export"],
    &["qanat", "qanat-daemon"],
    &[
        "qanat-web",
        "qanat-delay",
        "qanat-dns",
        "qanat-cache",
        "qanat-kv",
        "qanat-balancer",
        "qanat-echo",
        "qanat-examples",
        "qanat-native",
    ],
    // The web service, with other content.
    &["qanat-video"],
    &["qanat-posix", "qanat-bench"],
    &["qanat-packetdrill", "qanat-cli"],
    &["qanat-tests", "qanat-disk-suite"],
    &["qanat-socket-cases", "qanat-hardware", "qanat-fuzz"],
];
/// The library of the system tests, and the suite of drivers of disks. Tests of crates below them may use them, too.
const TEST_LIBRARIES: [&str; 2] = ["qanat-tests", "qanat-disk-suite"];
/// Crates in which `unsafe` may be.
const UNSAFE: [&str; 6] = ["qanat-nic", "qanat-abi", "qanat-disk", "qanat-native", "qanat-posix", "qanat-packetdrill"];
/// The one test program that calls the C library as C programs do, and its one module in which `unsafe` may be.
const UNSAFE_TEST: &str = "qanat-socket-cases";
const UNSAFE_TEST_MODULE: &str = "tests/sockets/src/sys";
const FILE_LINES_MAX: usize = 800;
const FUNCTION_LINES_MAX: usize = 100;
/// Files in a folder, at most.
const FOLDER_FILES_MAX: usize = 24;
/// A folder with one file for each group of calls, in a table of them: it may have more.
const FOLDER_OF_CASES: &str = "tests/sockets/src/cases";
/// Where no files import each other in circles any more. Nothing below these may come into the list of circles again.
const WITHOUT_CIRCLES: [&str; 7] =
    ["bench/", "crates/", "examples/", "fuzz/", "services/", "tests/sockets/", "tests/src/"];
