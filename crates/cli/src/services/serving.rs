//! What all services that browsers ask have in common: certificates and keys, a log, and the service that runs now, which signals reach.

use super::https::{HttpsArguments, Secrets};
use crate::host::privilege::Privilege;
use crate::host::privilege::access::Need;
use crate::host::privilege::paths::directory_of;
use crate::log;
use qanat_web::{Https, WebError, WebHandle, WebService};
use rustix::fs::Access;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// See the module.
pub struct Serving {
    /// Certificates and keys, if it serves by HTTPS.
    https: Option<Arc<Secrets>>,
    access_log: Option<PathBuf>,
    /// The service that runs now.
    service: Arc<Mutex<Option<WebHandle>>>,
}

impl Serving {
    /// As these options say.
    pub fn new(https: &HttpsArguments, access_log: Option<&PathBuf>) -> Result<Serving, String> {
        Ok(Serving { https: https.secrets()?, access_log: access_log.cloned(), service: Arc::default() })
    }

    /// What whoever goes on has to be able to use.
    pub fn needs(&self) -> Vec<Need> {
        self.access_log.iter().cloned().map(Need::Append).collect()
    }

    /// Where it reads and writes.
    pub fn places(&self) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let secrets = || self.https.iter();
        let log = self.access_log.iter().map(|log| directory_of(log));
        let read = secrets().flat_map(|it| it.read()).collect();
        (read, log.chain(secrets().flat_map(|it| it.write())).collect())
    }

    /// The log, and the keys. All else that is read and written, is by who goes on.
    pub fn open(&self, privilege: &Privilege) -> Result<(), String> {
        self.https.iter().try_for_each(|secrets| secrets.open())?;
        self.access_log.iter().try_for_each(|log| privilege.make_file(log))
    }

    /// What the service is to be for browsers at these addresses.
    pub fn https(&self, options: &HttpsArguments, addresses: &[IpAddr]) -> Result<Option<Https>, String> {
        let Some(secrets) = &self.https else { return Ok(None) };
        secrets.load(addresses).map(|tls| Some(options.web(tls)))
    }

    /// This service runs from now on.
    pub fn runs(&self, service: Result<WebService, WebError>) -> Result<WebService, String> {
        let service = service.map_err(|error| error.to_string())?;
        *self.service.lock().unwrap_or_else(PoisonError::into_inner) = Some(service.handle());
        Ok(service)
    }

    /// What SIGHUP does. `set`: what it does besides, before the service looks at its files again.
    pub fn reload(&self, mut set: impl FnMut(&WebHandle) + Send + 'static) -> Box<dyn FnMut() + Send> {
        let (service, access_log, https) = (Arc::clone(&self.service), self.access_log.clone(), self.https.clone());
        Box::new(move || {
            access_log.iter().for_each(|log| tell_of_lost(log));
            let tls = https.as_ref().and_then(|secrets| secrets.reload());
            for service in service.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                tls.iter().cloned().for_each(|tls| service.set_tls(tls));
                set(service);
                service.reload();
            }
        })
    }
}

/// The log is opened anew by who serves, who may be no longer able to make one. Then it goes on in the file that was renamed.
fn tell_of_lost(log: &Path) {
    // Only looked for: who makes it is the writer, when it has written what it had for the old one.
    let outcome: io::Result<()> = match OpenOptions::new().append(true).open(log) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            rustix::fs::access(directory_of(log), Access::WRITE_OK | Access::EXEC_OK).map_err(Into::into)
        }
        outcome => outcome.map(drop),
    };
    if let Err(error) = outcome {
        log::warning!(
            "access-log",
            "{}: {error}: lines go on to the file that was there before; whoever renames it is to make the next one for the user \
             that serves (logrotate: `create 0640 USER GROUP`)",
            log.display()
        );
    }
}
