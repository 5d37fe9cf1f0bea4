//! What `qanat web` is told about answers: by options, and by a file that is read again on SIGHUP.

use crate::host::privilege::access::Need;
use crate::host::privilege::paths::directory_of;
use crate::log;
use clap::Args;
use qanat_web::{BasicAuth, ConfigFile, ErrorPage, Fallback, Field, Redirect, Rewrite, Rules, Site, WebHandle};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

fn parse_site(text: &str) -> Result<Site, String> {
    let (host, root) = text.split_once('=').ok_or("write it as NAME=DIRECTORY")?;
    Ok(Site { hosts: vec![host.to_owned()], root: root.into(), rules: Rules::default() })
}

/// Options about answers.
#[derive(Args, Clone)]
#[command(next_help_heading = "Answers (docs/web.md)")]
pub struct RulesArguments {
    /// Serve requests for this host from another directory; may be repeated
    #[arg(long, value_name = "NAME=DIRECTORY", value_parser = parse_site)]
    host: Vec<Site>,
    /// Rules of all hosts, and hosts with rules of their own, in TOML. It goes before options, and is read again on HUP
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Value of a Cache-Control field on every file
    #[arg(long, value_name = "VALUE")]
    cache_control: Option<String>,
    /// Pages of this origin, or of all (*), may read what is served (CORS)
    #[arg(long, value_name = "ORIGIN")]
    allow_origin: Option<String>,
    /// A field of every response; may be repeated
    #[arg(long, value_name = "NAME: VALUE")]
    header: Vec<Field>,
    /// A path, or all that begin with it (*), leads elsewhere, by 301 or another status; may be repeated
    #[arg(long, value_name = "[STATUS:]FROM[*]=TO[*]")]
    redirect: Vec<Redirect>,
    /// For a path, or all that begin with it (*), another one's file is served; may be repeated
    #[arg(long, value_name = "FROM[*]=TO[*]")]
    rewrite: Vec<Rewrite>,
    /// File served where there is none, as single-page applications want it
    #[arg(long, value_name = "PATH")]
    fallback: Option<Fallback>,
    /// File served instead of the server's own page for 403, 404, 500 or 503; may be repeated
    #[arg(long, value_name = "STATUS=PATH")]
    error_page: Vec<ErrorPage>,
    /// List directories that have no index.html
    #[arg(long)]
    listing: bool,
    /// Compress text (brotli, gzip) that is not there as .br and .gz, once, when it is prepared: up to 4 MiB
    #[arg(long)]
    compress: bool,
    /// A path, or all that begin with it (*), is for the users of this file (htpasswd -B); may be repeated
    #[arg(long, value_name = "PATH[*]=FILE")]
    basic_auth: Vec<BasicAuth>,
    /// Responses say how long they waited (Server-Timing)
    #[arg(long)]
    server_timing: bool,
}

/// What they say, and what their file says.
#[derive(Clone)]
pub struct Sites {
    /// Rules of all hosts.
    pub rules: Rules,
    /// Hosts with a directory of their own.
    pub hosts: Vec<Site>,
}

/// A list, if there is something in it.
fn said<T: Clone>(all: &[T]) -> Option<Vec<T>> {
    (!all.is_empty()).then(|| all.to_vec())
}

impl RulesArguments {
    fn rules(&self) -> Rules {
        Rules {
            cache_control: self.cache_control.clone(),
            allow_origin: self.allow_origin.clone(),
            headers: said(&self.header),
            redirects: said(&self.redirect),
            rewrites: said(&self.rewrite),
            fallback: self.fallback.clone(),
            error_pages: said(&self.error_page),
            listing: self.listing.then_some(true),
            compress: self.compress.then_some(true),
            server_timing: self.server_timing.then_some(true),
            basic_auth: said(&self.basic_auth),
        }
    }

    /// Reads the file, if there is one.
    ///
    /// # Errors
    /// It is none: where, and what is wrong.
    pub fn sites(&self) -> Result<Sites, String> {
        let file = self.config.as_deref().map(ConfigFile::read).transpose().map_err(|error| error.to_string())?;
        let ConfigFile { rules, hosts } = file.unwrap_or_default();
        let hosts = self.host.iter().cloned().chain(hosts).collect();
        let mut sites = Sites { rules: rules.or(&self.rules()), hosts };
        // What was read goes on, with another card, too, if it can't be read any more.
        for auth in sites.passwords() {
            auth.read().map_err(|error| error.to_string())?;
        }
        Ok(sites)
    }

    /// Sets what is said now, at a service that runs. If it can't be, what was said before goes on, and a warning says so.
    /// What is set now is said to be so in `now`, for the service that comes after this one.
    pub fn set(&self, service: &WebHandle, now: &Mutex<Sites>) {
        let set = self.sites().and_then(|sites| {
            service.set_sites(&sites.rules, &sites.hosts).map_err(|error| error.to_string())?;
            Ok(sites)
        });
        match set {
            Ok(sites) => *now.lock().unwrap_or_else(PoisonError::into_inner) = sites,
            Err(error) => log::warning!("config", "{error} What was read before goes on."),
        }
    }
}

impl Sites {
    fn passwords(&mut self) -> impl Iterator<Item = &mut BasicAuth> {
        let rules = std::iter::once(&mut self.rules).chain(self.hosts.iter_mut().map(|site| &mut site.rules));
        rules.flat_map(|rules| rules.basic_auth.iter_mut().flatten())
    }

    /// Files that are read besides those that are served: the configuration, and passwords.
    fn files<'a>(&'a self, arguments: &'a RulesArguments) -> impl Iterator<Item = &'a Path> {
        let rules = std::iter::once(&self.rules).chain(self.hosts.iter().map(|site| &site.rules));
        let passwords = rules.flat_map(|rules| rules.basic_auth.iter().flatten()).map(BasicAuth::file);
        arguments.config.as_deref().into_iter().chain(passwords)
    }

    /// What whoever goes on has to be able to use.
    pub fn needs(&self, arguments: &RulesArguments) -> Vec<Need> {
        self.files(arguments).map(|file| Need::Read(file.to_owned())).collect()
    }

    /// Where it is read again. Files are replaced by others of their names, and links lead elsewhere.
    pub fn places(&self, arguments: &RulesArguments) -> Vec<PathBuf> {
        let real = self.files(arguments).filter_map(|file| std::fs::canonicalize(file).ok());
        self.files(arguments).map(directory_of).chain(real.map(|file| directory_of(&file))).collect()
    }
}
