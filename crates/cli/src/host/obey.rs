//! What a service does when it gets a signal: INT and TERM stop it gracefully, a second time at once; HUP has it reload; USR1 has it
//! report.

use crate::exit;
use crate::host::application::Figures;
use crate::host::control::Control;
use crate::signals::Signals;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};

/// Obeys `signals` from now on, by a thread. `reload` has a thread of its own, so that a signal to stop need not wait for it.
///
/// # Errors
/// The system has no handler for them.
pub fn obey<F: Figures>(
    mut signals: Signals,
    control: Control<F>,
    reload: Option<Box<dyn FnMut() + Send>>,
) -> Result<(), String> {
    signals.also_handle(&[SIGINT, SIGTERM, SIGUSR1])?;
    let reload = reload.map(|mut reload| {
        // One that waits is enough: it sees all that came before it.
        let (again, wanted) = std::sync::mpsc::sync_channel::<()>(1);
        std::thread::spawn(move || wanted.iter().for_each(|()| reload()));
        again
    });
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if signal == SIGHUP {
                // Full: one waits.
                let _ = reload.as_ref().map(|reload| reload.try_send(()));
            } else if signal == SIGUSR1 {
                control.report();
            } else if !control.stop() {
                exit::by_signal(signal);
            }
        }
    });
    Ok(())
}
