//! Asynchronous events: what a controller says unasked (NVM Express Base 2.0, 5.2), and the log page that says more.

/// Asynchronous events, as far as they are used: of namespaces.
pub mod event {
    /// Namespace Attribute Notices: the bit in OAES, and in `cdw11` of Asynchronous Event Configuration.
    pub const NAMESPACE_NOTICES: u32 = 1 << 8;
    /// The log page of namespaces that have changed (Changed Namespace List). Reading it lets the next such event be said.
    pub const CHANGED_NAMESPACES: u8 = 0x04;
    /// Namespace Attribute Changed, as the result of an Asynchronous Event Request: type 2 (notice), information 0, and the log page.
    pub const NAMESPACE_ATTRIBUTE_CHANGED: u32 = 2 | (CHANGED_NAMESPACES as u32) << 16;

    /// Whether the result of an Asynchronous Event Request says that a namespace has changed.
    pub fn is_namespace_changed(result: u32) -> bool {
        let (kind, information) = (result & 0b111, result >> 8 & 0xff);
        (kind, information) == (2, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::event;

    #[test]
    fn a_notice_is_told_from_other_events() {
        assert_eq!(event::NAMESPACE_ATTRIBUTE_CHANGED, 0x0004_0002);
        assert!(event::is_namespace_changed(event::NAMESPACE_ATTRIBUTE_CHANGED));
        // An error, the temperature, firmware activation.
        for other in [0x0001_0300, 0x0002_0101, 0x0003_0102] {
            assert!(!event::is_namespace_changed(other), "{other:#x}");
        }
    }
}
