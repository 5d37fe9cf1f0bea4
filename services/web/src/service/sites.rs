//! The sites that are served: by which names, from which directories, by which rules.

use crate::config::WebError;
use crate::content::Root;
use crate::content::resource::SiteRules;
use crate::http::target;
use crate::rules::{Access, Redirects, Rewrites, Rules, Site, Substitutes, is_printable};
use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Bytes of fields that an operator adds: heads of HTTP/2 are bounded.
const HEADERS_BYTES_MAX: usize = 8_192;
/// Said by responses that waited for nothing, if they say how long they took.
pub(super) const NO_WAIT: &str = "Server-Timing: memory\r\n";

/// One of them.
#[derive(Debug)]
pub(super) struct ServedSite {
    /// Its directory; `None`: its content is a library's.
    pub(super) root: Option<Arc<Root>>,
    path: PathBuf,
    pub(super) redirects: Redirects,
    pub(super) rewrites: Rewrites,
    pub(super) substitutes: Substitutes,
    pub(super) access: Access,
    /// Fields of every response, each with its line's end.
    pub(super) common: String,
    /// Whether pages of other origins may read it.
    pub(super) is_shared: bool,
    /// Whether responses say how long they took.
    pub(super) tells_time: bool,
    /// What readers have to know.
    pub(super) rules: Arc<SiteRules>,
}

/// What sites are opened with, besides their rules.
#[derive(Clone, Debug)]
pub(super) struct SitePlan {
    /// Directory for every host that no site names; `None`: content is a library's.
    pub(super) root: Option<PathBuf>,
    /// Lists of directories have hidden files in them.
    pub(super) hidden_files: bool,
    /// Fields of all sites' prepared heads, each with its line's end.
    pub(super) strict: String,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Sites {
    names: HashMap<String, usize>,
    /// The first one is for hosts that have none of the names.
    all: Vec<ServedSite>,
    is_protected: bool,
    tell_time: bool,
}

fn check(rules: &Rules) -> Result<(), WebError> {
    let wrong = |field, remedy| Err(WebError::Value { field, remedy });
    if !rules.cache_control.iter().all(|value| is_printable(value)) {
        return wrong("cache_control", "printable ASCII on one line, such as max-age=3600");
    }
    if !rules.allow_origin.iter().all(|value| is_printable(value)) {
        return wrong("allow_origin", "printable ASCII on one line: * or an origin, such as https://films.example");
    }
    Ok(())
}

/// Files of passwords are not to be among those that are served.
fn check_passwords<'a>(
    all: &[ServedSite],
    rules: impl Iterator<Item = &'a Rules>,
    plan: &SitePlan,
) -> Result<(), WebError> {
    let is_hidden = |part: Component<'_>| {
        part.as_os_str().as_encoded_bytes().starts_with(b".") && part.as_os_str() != ".well-known"
    };
    for auth in rules.flat_map(|rules| rules.basic_auth.iter().flatten()) {
        let Ok(path) = auth.file().canonicalize() else { continue };
        for root in all.iter().filter_map(|site| site.root.as_ref()) {
            let inside = path.strip_prefix(root.path());
            if inside.is_ok_and(|inside| plan.hidden_files || !inside.components().any(is_hidden)) {
                return Err(WebError::PasswordsServed { path: auth.file().to_owned(), root: root.path().to_owned() });
            }
        }
    }
    Ok(())
}

fn open(root: Option<&Path>, rules: &Rules, plan: &SitePlan) -> Result<ServedSite, WebError> {
    check(rules)?;
    let path = root.unwrap_or(Path::new("")).to_owned();
    let opened = root.map(|root| Root::open(root).map(Arc::new)).transpose();
    let root = opened.map_err(|error| WebError::Root { path: path.clone(), error })?;
    if rules.basic_auth.iter().flatten().any(|auth| auth.is_directory(&path)) {
        return Err(WebError::Value { field: "basic_auth", remedy: "a directory and all that is in it is PATH/*" });
    }
    let origin = rules.allow_origin.as_ref().map(|origin| {
        format!("Access-Control-Allow-Origin: {origin}\r\nAccess-Control-Expose-Headers: Content-Length, Content-Range, Date\r\n")
    });
    let own = rules.headers.iter().flatten().map(|field| format!("{field}\r\n"));
    let fields = rules.headers.iter().flatten().map(|field| field.to_string().len()).sum::<usize>();
    if fields > HEADERS_BYTES_MAX {
        return Err(WebError::Value { field: "headers", remedy: "at most 8192 bytes of fields for a site" });
    }
    let common: String = origin.into_iter().chain(own).collect();
    let tells_time = rules.server_timing == Some(true);
    let timing = if tells_time { NO_WAIT } else { "" };
    let access = Access::open(rules.basic_auth.as_deref().unwrap_or_default())?;
    if access.is_ambiguous() {
        return Err(WebError::Value { field: "basic_auth", remedy: "each PATH is said once" });
    }
    Ok(ServedSite {
        root,
        path,
        redirects: Redirects::new(rules.redirects.as_deref().unwrap_or_default()),
        rewrites: Rewrites::new(rules.rewrites.as_deref().unwrap_or_default()),
        substitutes: Substitutes::new(rules.fallback.as_ref(), rules.error_pages.as_deref().unwrap_or_default()),
        access,
        is_shared: rules.allow_origin.is_some(),
        tells_time,
        rules: Arc::new(SiteRules {
            cache_control: rules.cache_control.clone(),
            common: format!("{}{common}{timing}", plan.strict),
            listing: (rules.listing == Some(true)).then_some(plan.hidden_files),
            compress: rules.compress == Some(true),
        }),
        common,
    })
}

impl Sites {
    /// Opens what is named.
    pub(super) fn open(plan: &SitePlan, general: &Rules, sites: &[Site]) -> Result<Sites, WebError> {
        let mut names = HashMap::new();
        let mut all = vec![open(plan.root.as_deref(), general, plan)?];
        for site in sites {
            for host in &site.hosts {
                if names.insert(target::host_name(host.as_bytes()), all.len()).is_some() {
                    return Err(WebError::Twice { host: host.clone() });
                }
            }
            all.push(open(Some(&site.root), &site.rules.clone().or(general), plan)?);
        }
        let rules = sites.iter().map(|site| &site.rules).chain([general]);
        check_passwords(&all, rules, plan)?;
        let is_protected = all.iter().any(|site| !site.access.is_open());
        let tell_time = all.iter().any(|site| site.tells_time);
        Ok(Sites { names, all, is_protected, tell_time })
    }

    /// Whether hosts are told apart.
    #[inline]
    pub(super) fn are_many(&self) -> bool {
        !self.names.is_empty()
    }

    /// Whether anything is for users with a password alone.
    #[inline]
    pub(super) fn are_protected(&self) -> bool {
        self.is_protected
    }

    /// Whether any says how long its responses took.
    #[inline]
    pub(super) fn tell_time(&self) -> bool {
        self.tell_time
    }

    /// Which one a request for a host is for.
    pub(super) fn index_of(&self, host: &[u8]) -> usize {
        if self.names.is_empty() {
            return 0;
        }
        self.names.get(&target::host_name(host)).copied().unwrap_or(0)
    }

    /// Which one a request is for.
    pub(super) fn of(&self, host: &[u8]) -> Option<&ServedSite> {
        self.all.get(self.index_of(host))
    }

    pub(super) fn get(&self, index: usize) -> Option<&ServedSite> {
        self.all.get(index)
    }

    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut ServedSite> {
        self.all.get_mut(index)
    }

    /// All of them, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &ServedSite> {
        self.all.iter()
    }

    /// Passwords that were right before stay so, where they are the same.
    pub(super) fn keep_verified(&mut self, before: &Sites) {
        for site in &mut self.all {
            before.all.iter().for_each(|other| site.access.keep_verified(&other.access));
        }
    }

    /// Opens the directories anew. One that can't be opened stays as it was.
    pub(super) fn reopen(&mut self) {
        for site in &mut self.all {
            if let (Some(root), Ok(new)) = (&mut site.root, Root::open(&site.path)) {
                *root = Arc::new(new);
            }
        }
    }
}
