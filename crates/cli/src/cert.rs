//! `qanat cert`: a certificate that nobody else vouches for, to try things with.

use crate::say::done;
use clap::Args;
use qanat_tls::{LAST_YEAR, SelfSigned};
use serde_json::json;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Make a certificate for trying, and its key
#[derive(Args)]
#[command(after_help = "\
Examples:
  qanat cert                                    for localhost: certificate.pem and key.pem, here
  qanat cert blog.example 10.77.0.2 --to /etc/qanat
  sudo qanat web ./site --https --certificate certificate.pem --key key.pem
  curl --cacert certificate.pem https://blog.example/
Nobody vouches for such a certificate: clients have to be told that they may trust it. Browsers ask. What everybody is to use has
one of an authority: certbot and others get it, and the server reads it with the same two options.")]
pub struct Arguments {
    /// Host names and addresses that it is for
    #[arg(default_value = "localhost", value_name = "NAME")]
    names: Vec<String>,
    /// Directory where the two files are written
    #[arg(long, value_name = "DIRECTORY", default_value = ".")]
    to: PathBuf,
    /// Replace files that are there
    #[arg(long)]
    force: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Writes the two files.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let made = SelfSigned::new(&arguments.names).map_err(|error| error.to_string())?;
    let (certificate, key) = (arguments.to.join("certificate.pem"), arguments.to.join("key.pem"));
    // The key first: a certificate without its key is no use.
    write(&key, &made.key, 0o600, arguments.force)?;
    write(&certificate, &made.certificate, 0o644, arguments.force)?;
    let fields = json!({ "certificate": certificate, "key": key, "names": arguments.names, "last_year": LAST_YEAR });
    let text = format!(
        "{}: a certificate for {}, until the end of {LAST_YEAR}\n{}: its key, which only its owner may read",
        certificate.display(),
        arguments.names.join(", "),
        key.display()
    );
    done(arguments.json, &fields, &text);
    Ok(())
}

fn write(path: &Path, text: &str, mode: u32, force: bool) -> Result<(), String> {
    if force && path.exists() {
        std::fs::remove_file(path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| {
        let remedy = match error.kind() {
            std::io::ErrorKind::AlreadyExists => "; --force replaces it",
            _ => "; name a directory where you may write (--to)",
        };
        format!("{}: {error}{remedy}", path.display())
    })
}
