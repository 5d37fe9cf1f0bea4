//! [`StackCapabilities`]: what a service can have in one placement, and can't in another.

use crate::error::CommandError;
use crate::options::{ConnectOptions, FastOpenRequest};

/// What a service can have in one placement, and can't in another. Whatever is not said here is the same in each.
///
/// ```
/// use qanat_api::StackCapabilities;
///
/// // A stack of Qanat's has all of it.
/// assert!(StackCapabilities::default().acknowledges);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
pub struct StackCapabilities {
    /// [`Event::Acked`](crate::Event::Acked) means that the peer has the bytes. If not, it means that the kernel has taken them: what was
    /// lent is free, and the peer has them soon, or never.
    pub acknowledges: bool,
    /// [`Commands::send_room`](crate::Commands::send_room) knows the windows of peer and network.
    pub tells_send_room: bool,
    /// [`ConnectOptions::fast_open`](crate::ConnectOptions::fast_open) is obeyed. If not, a connection with it is refused.
    pub fast_open: bool,
    /// [`ConnectOptions::maximum_segment`](crate::ConnectOptions::maximum_segment) is obeyed. If not, a connection with it is refused.
    pub maximum_segment: bool,
    /// [`ConnectOptions::receive_window`](crate::ConnectOptions::receive_window) is obeyed. If not, a connection with it is refused.
    pub receive_window: bool,
    /// There may be [`Event::Urgent`](crate::Event::Urgent).
    pub urgent: bool,
    /// [`Setting::AdvertisedUserTimeout`](crate::Setting::AdvertisedUserTimeout) is obeyed.
    pub advertised_user_timeout: bool,
    /// There may be [`Event::AddressConflict`](crate::Event::AddressConflict).
    pub address_conflicts: bool,
}

impl StackCapabilities {
    /// Whether a connection may be made with these options.
    ///
    /// # Errors
    /// [`CommandError::Unsupported`].
    pub fn check(&self, options: &ConnectOptions) -> Result<(), CommandError> {
        let is_obeyed = (self.fast_open || options.fast_open == FastOpenRequest::No)
            && (self.maximum_segment || options.maximum_segment.is_none())
            && (self.receive_window || options.receive_window.is_none());
        if is_obeyed { Ok(()) } else { Err(CommandError::Unsupported) }
    }
}

impl Default for StackCapabilities {
    fn default() -> StackCapabilities {
        StackCapabilities {
            acknowledges: true,
            tells_send_room: true,
            fast_open: true,
            maximum_segment: true,
            receive_window: true,
            urgent: true,
            advertised_user_timeout: true,
            address_conflicts: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_obeyed_is_refused_and_not_left_out() {
        let all = StackCapabilities::default();
        let cases = [
            (
                StackCapabilities { fast_open: false, ..all },
                ConnectOptions { fast_open: FastOpenRequest::WithCookie, ..ConnectOptions::default() },
            ),
            (
                StackCapabilities { maximum_segment: false, ..all },
                ConnectOptions { maximum_segment: Some(536), ..ConnectOptions::default() },
            ),
            (
                StackCapabilities { receive_window: false, ..all },
                ConnectOptions { receive_window: Some(4_096), ..ConnectOptions::default() },
            ),
        ];
        for (place, (lacking, options)) in cases.iter().enumerate() {
            assert_eq!(lacking.check(options), Err(CommandError::Unsupported));
            assert_eq!(all.check(options), Ok(()));
            let others = cases.iter().enumerate().filter(|(other, _)| *other != place);
            assert!(others.into_iter().all(|(_, (_, options))| lacking.check(options).is_ok()));
            assert_eq!(lacking.check(&ConnectOptions::default()), Ok(()));
        }
    }
}
