//! Handles: what both sides call a connection, a listener, a socket, a timer, a storage area.

use std::fmt;

macro_rules! handle {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        ///
        /// A slot number and the slot's generation: a handle kept after its object is gone is refused, never mistaken
        /// for the slot's next tenant.
        // One word, slot below, since they are compared.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub struct $name(u64);

        impl $name {
            /// The handle of `slot` in its `generation`.
            #[inline]
            pub const fn new(slot: u32, generation: u32) -> Self {
                Self((generation as u64) << 32 | slot as u64)
            }

            /// The slot: dense from zero, so a service may keep its own state in a vector indexed by it.
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as u32 as usize
            }

            /// The handle as a number, as a token of something that is done for it.
            #[inline]
            pub const fn to_token(self) -> u64 {
                self.0
            }

            /// The handle that [`to_token`](Self::to_token) made a number of.
            #[inline]
            pub const fn from_token(token: u64) -> Self {
                Self(token)
            }

            /// The slot's generation.
            #[inline]
            pub const fn generation(self) -> u32 {
                (self.0 >> 32) as u32
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({}, {})", stringify!($name), self.index(), self.generation())
            }
        }
    };
}

handle! {
    /// A TCP connection.
    ///
    /// ```
    /// use qanat_api::ConnectionId;
    ///
    /// // A service may keep its own state in a vector, by the slot. The generation tells a new connection from an earlier one there.
    /// let (first, second) = (ConnectionId::new(4, 0), ConnectionId::new(4, 1));
    /// assert_eq!(first.index(), second.index());
    /// assert_ne!(first, second);
    /// ```
    ConnectionId
}
handle! {
    /// A TCP listener.
    ListenerId
}
handle! {
    /// A UDP socket.
    UdpSocketId
}
handle! {
    /// A service's timer.
    TimerId
}
handle! {
    /// A storage area that the program's runtime was given.
    AreaId
}
