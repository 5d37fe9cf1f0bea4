//! How load is told to stop.

use qanat::StopHandle;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// A handle that Ctrl-C requests.
pub fn stop_handle() -> Result<StopHandle, String> {
    let stop = StopHandle::new().map_err(|error| format!("doorbell: {error}"))?;
    stop_on_signals(stop.clone())?;
    Ok(stop)
}

fn stop_on_signals(stop: StopHandle) -> Result<(), String> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(|error| format!("handling signals: {error}"))?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if stop.is_requested() {
                crate::exit::by_signal(signal);
            }
            stop.request();
        }
    });
    Ok(())
}
