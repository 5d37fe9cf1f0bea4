//! [`Counts`]: what was done, by its outcome: the names are memcached's. [`Connections`]: what the service adds.

macro_rules! counts {
    ($($(#[$about:meta])* $name:ident,)*) => {
        /// See the module.
        #[derive(Clone, Copy, Debug, Default)]
        pub struct Counts {
            $($(#[$about])* pub $name: u64,)*
        }

        impl Counts {
            /// What was done since these were taken.
            pub fn since(&self, earlier: &Counts) -> Counts {
                Counts { $($name: self.$name.saturating_sub(earlier.$name),)* }
            }
        }
    };
}

counts! {
    get_commands,
    get_hits,
    get_expired,
    get_flushed,
    set_commands,
    stored,
    touch_commands,
    touch_hits,
    flush_commands,
    meta_commands,
    delete_hits,
    delete_misses,
    incr_hits,
    incr_misses,
    decr_hits,
    decr_misses,
    cas_hits,
    cas_misses,
    cas_badval,
    auth_commands,
    auth_errors,
    store_too_large,
    store_no_memory,
    /// Items that had ended and were found so, by requests or by the sweep.
    reclaimed,
    crawled,
}

/// What the service knows of its connections.
#[derive(Clone, Copy, Debug, Default)]
pub struct Connections {
    pub open: u64,
    pub total: u64,
    pub rejected: u64,
    pub input_bytes: u64,
    pub output_bytes: u64,
    /// Closed because they took nothing of what they were owed.
    pub slow: u64,
}
