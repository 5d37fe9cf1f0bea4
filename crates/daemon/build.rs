//! Compiles the BPF programs with clang; they are embedded in the library.

use std::path::PathBuf;
use std::process::Command;

const REMEDY: &str = "install clang and the libbpf headers: apt-get install clang libbpf-dev linux-libc-dev";

fn main() {
    println!("cargo:rerun-if-env-changed=CLANG");
    for name in ["gate", "holder"] {
        compile(name);
    }
}

fn compile(name: &str) {
    // Headers too.
    println!("cargo:rerun-if-changed=bpf");
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default()).join(format!("{name}.o"));
    // The programs are the same for each kind of machine: the headers are those of the one that builds.
    let host = std::env::var("HOST").unwrap_or_default();
    let architecture = host.split('-').next().unwrap_or_default();
    let mut command = Command::new(&clang);
    command.args(["-O2", "-g", "-Wall", "-Werror", "-target", "bpf", "-mcpu=v3", "-c"]);
    command.arg(format!("bpf/{name}.c")).arg("-o").arg(&out);
    // Debian keeps asm/ headers under the multiarch directory, which -target bpf does not search.
    command.arg(format!("-I/usr/include/{architecture}-linux-gnu"));
    match command.output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let message = String::from_utf8_lossy(&output.stderr);
            panic!(
                "\n\n{clang} could not compile bpf/{name}.c of qanat-daemon. If headers are missing, \
                 {REMEDY}\n\n{message}\n"
            )
        }
        Err(error) => panic!("\n\ncannot run {clang} ({error}): {REMEDY}\n\n"),
    }
}
