//! What INFO tells of commands and errors.

use crate::engine::access::needs::name;
use crate::engine::call::Call;
use std::fmt::Write;

/// `Commandstats`: commands that were executed or refused.
///
/// # Errors
/// Of writing.
pub fn of_commands(call: &Call<'_>, text: &mut String) -> std::fmt::Result {
    for (number, count) in call.state.observed.counts.commands().enumerate() {
        if count.calls + count.rejected == 0 {
            continue;
        }
        let Some(name) = name(number) else { continue };
        let microseconds = count.nanoseconds as f64 / 1_000.0;
        let each = if count.calls == 0 { 0.0 } else { microseconds / count.calls as f64 };
        write!(text, "cmdstat_{name}:calls={},usec={microseconds:.0},", count.calls)?;
        writeln!(text, "usec_per_call={each:.2},rejected_calls={},failed_calls={}\r", count.rejected, count.failed)?;
    }
    Ok(())
}

/// `Errorstats`: errors by their first words.
///
/// # Errors
/// Of writing.
pub fn of_errors(call: &Call<'_>, text: &mut String) -> std::fmt::Result {
    let mut errors = call.state.observed.counts.errors();
    errors.try_for_each(|(kind, count)| writeln!(text, "errorstat_{kind}:count={count}\r"))
}
