//! What is asked for before the start.

use super::guard::text;
use crate::options::Options as Asked;
use crate::status::{Code, Refused, Status};
use std::ffi::c_char;

/// What is asked for before the start.
pub struct Options(pub(super) Asked);

/// New options: a card of the daemon's if one listens, else one of the program's own, which takes root; at 10.77.0.2/24. Freed by
/// `qanat_options_free`.
#[unsafe(no_mangle)]
pub extern "C" fn qanat_options_new() -> *mut Options {
    Box::into_raw(Box::new(Options(Asked::default())))
}

/// Sets an option by its name, or adds to one that may be repeated. docs/native.md has them all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qanat_options_set(options: *mut Options, name: *const c_char, value: *const c_char) -> Code {
    let set = || -> Result<(), Refused> {
        // SAFETY: the program's promise, as the module says.
        let options = unsafe { options.as_mut() }.ok_or(Refused::Argument("options: a null pointer"))?;
        // SAFETY: the same.
        let (name, value) = unsafe { (text(name, "name: no text")?, text(value, "value: no text")?) };
        options.0.set(name, value).map_err(|error| Refused::Failed(error.to_string()))
    };
    match set() {
        Ok(()) => Status::Ok as Code,
        // What was asked for can't be: the text says why.
        Err(Refused::Failed(why)) => {
            crate::status::note(&why);
            Status::Invalid as Code
        }
        Err(refused) => refused.code(),
    }
}

/// Frees options. A null pointer is good.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qanat_options_free(options: *mut Options) {
    if !options.is_null() {
        // SAFETY: it is of `qanat_options_new`, and given back once.
        drop(unsafe { Box::from_raw(options) });
    }
}
