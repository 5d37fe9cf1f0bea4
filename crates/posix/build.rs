//! The library has an entry point: the dynamic linker can run it as a program of its own, which its keeper is.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-e,qanat_helper");
    println!("cargo:rerun-if-changed=build.rs");
}
