//! The option of services that export a directory.

use clap::Args;
use qanat_export::place::ExportName;

/// Whether a service exports a directory, and under which name.
#[derive(Args, Clone, Debug)]
pub struct ExportArguments {
    /// Let conventional programs (ls, cat, grep -r) read what it has, as files below /run/qanat/export/NAME (default: the service's name).
    /// They are its user's, and nobody else's but root's. It takes root to start with
    #[arg(long, value_name = "NAME", num_args = 0..=1, require_equals = true, value_parser = name)]
    export: Option<Option<ExportName>>,
}

fn name(text: &str) -> Result<ExportName, String> {
    text.parse().map_err(|error: qanat_export::place::ExportNameError| error.to_string())
}

impl ExportArguments {
    /// Whether something is exported.
    pub fn is_wanted(&self) -> bool {
        self.export.is_some()
    }

    /// The name, if it exports; `service`: it is called so unless it is said.
    ///
    /// # Errors
    /// There can't be an export of that name.
    pub fn name(&self, service: &str) -> Result<Option<ExportName>, String> {
        match &self.export {
            None => Ok(None),
            Some(Some(name)) => Ok(Some(name.clone())),
            Some(None) => name(service).map(Some),
        }
    }
}
