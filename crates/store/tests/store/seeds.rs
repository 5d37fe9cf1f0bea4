//! How many histories are tried, and which.

use std::env;

fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}: not a number")))
}

/// Runs `history` for each seed: for `QANAT_SEED` alone, or for `QANAT_SEEDS` of them, `usual` if that is not set. Prints the seed of the one
/// that fails. Returns what all of them added up.
pub fn each<T: Default>(test: &str, usual: u64, mut history: impl FnMut(u64, &mut T)) -> T {
    struct Told<'a>(&'a str, u64);
    impl Drop for Told<'_> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                println!("replay: QANAT_SEED={} cargo test -p qanat-store --test store {}", self.1, self.0);
            }
        }
    }
    let seeds = match number("QANAT_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("QANAT_SEEDS").unwrap_or(usual),
    };
    let mut all = T::default();
    for seed in seeds {
        let told = Told(test, seed);
        history(seed, &mut all);
        drop(told);
    }
    all
}
