//! A bar that shows how far something long is.

use indicatif::{ProgressBar, ProgressStyle};

/// On standard error, if that is a terminal.
pub fn progress_bar(what: &str) -> ProgressBar {
    let bar = ProgressBar::new(0);
    let style = ProgressStyle::with_template("{msg} [{bar:40}] {percent}% {eta}").expect("the template is constant");
    bar.set_style(style.progress_chars("=> "));
    bar.set_message(what.to_owned());
    bar
}
