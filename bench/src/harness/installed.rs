//! Programs of others, as Debian has them.

use super::HarnessError;
use std::path::PathBuf;

/// Where Debian has what it runs as root.
const SYSTEM_PATHS: [&str; 3] = ["/usr/sbin", "/usr/bin", "/usr/local/sbin"];

/// The path of `program`.
///
/// # Errors
/// It isn't installed: says which package has it.
pub fn find(program: &str, package: &str) -> Result<PathBuf, HarnessError> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let all = SYSTEM_PATHS.iter().map(PathBuf::from).chain(std::env::split_paths(&paths));
    all.map(|path| path.join(program)).find(|path| path.exists()).ok_or_else(|| {
        HarnessError::Missing(format!("{program} is not installed, which this table needs: apt-get install {package}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_named_with_its_package() {
        let error = find("no-such-knotd", "knot").unwrap_err().to_string();
        assert!(error.contains("no-such-knotd") && error.contains("apt-get install knot"), "{error}");
        assert!(find("sh", "dash").is_ok());
    }
}
