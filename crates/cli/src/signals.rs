//! Signals of services that reload.

use signal_hook::consts::SIGHUP;
use signal_hook::iterator::Signals;

/// Catches HUP from now on; each is told to whoever asks for signals later. Other signals do what they always do until
/// [`also_handle`].
///
/// # Errors
/// What the system says.
pub fn hangups() -> Result<Signals, String> {
    Signals::new([SIGHUP]).map_err(|error| format!("handling signals: {error}"))
}

/// Catches more of them.
///
/// # Errors
/// What the system says.
pub fn also_handle(signals: &Signals, more: &[i32]) -> Result<(), String> {
    let handle = signals.handle();
    more.iter().try_for_each(|signal| handle.add_signal(*signal)).map_err(|error| format!("handling signals: {error}"))
}
