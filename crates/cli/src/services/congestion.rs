//! The option `--congestion`.

use qanat::CongestionAlgorithm;

/// An algorithm, by its name.
pub fn parse(name: &str) -> Result<CongestionAlgorithm, String> {
    let names = CongestionAlgorithm::ALL.map(CongestionAlgorithm::name).join(", ");
    CongestionAlgorithm::of_name(name).ok_or_else(|| format!("there are: {names}"))
}
