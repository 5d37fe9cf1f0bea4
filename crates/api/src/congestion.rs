//! [`CongestionAlgorithm`]: what decides how much a connection may have in flight.

/// A way to control congestion.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub enum CongestionAlgorithm {
    /// RFC 9438.
    #[default]
    Cubic,
    /// RFC 5681, 6582.
    NewReno,
    /// BBR, version 3 (draft-ietf-ccwg-bbr): a model of the path, for paths that lose at random. It paces what is sent.
    Bbr,
}

impl CongestionAlgorithm {
    /// Each of them.
    pub const ALL: [CongestionAlgorithm; 3] =
        [CongestionAlgorithm::Cubic, CongestionAlgorithm::NewReno, CongestionAlgorithm::Bbr];

    /// Its name on Linux.
    pub fn name(self) -> &'static str {
        match self {
            CongestionAlgorithm::Cubic => "cubic",
            CongestionAlgorithm::NewReno => "reno",
            CongestionAlgorithm::Bbr => "bbr",
        }
    }

    /// The one of this name on Linux.
    pub fn of_name(name: &str) -> Option<CongestionAlgorithm> {
        CongestionAlgorithm::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }
}
