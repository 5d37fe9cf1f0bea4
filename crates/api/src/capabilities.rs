//! [`StackCapabilities`]: what a service can have in one placement, and can't in another.

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
    /// [`ConnectOptions::fast_open`](crate::ConnectOptions::fast_open) is obeyed.
    pub fast_open: bool,
    /// There may be [`Event::Urgent`](crate::Event::Urgent).
    pub urgent: bool,
    /// [`Setting::AdvertisedUserTimeout`](crate::Setting::AdvertisedUserTimeout) is obeyed.
    pub advertised_user_timeout: bool,
    /// There may be [`Event::AddressConflict`](crate::Event::AddressConflict).
    pub address_conflicts: bool,
}

impl Default for StackCapabilities {
    fn default() -> StackCapabilities {
        StackCapabilities {
            acknowledges: true,
            tells_send_room: true,
            fast_open: true,
            urgent: true,
            advertised_user_timeout: true,
            address_conflicts: true,
        }
    }
}
