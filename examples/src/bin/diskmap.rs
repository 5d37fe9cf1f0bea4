//! Random reads by diskmap's interface: the program of the thesis' listing 4.1, for each size of its figure 4.8.
//!
//! ```text
//!  cargo run --release --package qanat-examples --bin diskmap -- fast.img
//! ```
//! The first argument is a file, a block device, or an NVMe generic device; nothing is written. The second is the time for each size, in
//! milliseconds. `qanat bench disk` puts the same disk beside aio and pread.
#![forbid(unsafe_code)]

use qanat::disk::Vsic;
use qanat_examples::diskmap::Diskmap;
use std::cell::Cell;
use std::error::Error;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Requests under way at once.
const WINDOW: u32 = 128;
const SIZES: [u32; 9] = [512, 1_024, 2_048, 4_096, 8_192, 16_384, 32_768, 65_536, 131_072];

/// Requests a second of one size.
fn reads_a_second(path: &Path, bytes: u32, time: Duration) -> Result<f64, Box<dyn Error>> {
    let mut map = Diskmap::open(path, WINDOW, bytes.max(4_096))?;
    let geometry = map.disk().geometry();
    let blocks = u64::from(bytes / geometry.block_bytes);
    let places = geometry.blocks.checked_div(blocks).filter(|places| *places > 0);
    let places = places.ok_or_else(|| format!("{}: reads of {bytes} bytes are none of its", path.display()))?;
    let (count, failure, mut random) = (Rc::new(Cell::new(0_u64)), Rc::new(Cell::new(None)), 1_u64);
    let begun = Instant::now();
    // However busy the machine is, some are read.
    while (begun.elapsed() < time || count.get() == 0) && failure.get().is_none() {
        loop {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (count, failure) = (Rc::clone(&count), Rc::clone(&failure));
            let done = move |read: Result<&[qanat::Frame], _>| match read {
                Ok(_) => count.set(count.get() + 1),
                Err(error) => failure.set(Some(error)),
            };
            if !map.read((random >> 33) % places * blocks, bytes as usize, Box::new(done)) {
                break;
            }
        }
        map.sqsync();
        if map.consume_completions(WINDOW as usize) == 0 {
            map.disk().wait(Duration::from_secs(1));
        }
    }
    match failure.get() {
        Some(error) => Err(format!("{}: {error}", path.display()).into()),
        None => Ok(count.get() as f64 / begun.elapsed().as_secs_f64()),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().collect();
    let path = words.get(1).ok_or("usage: diskmap FILE [MILLISECONDS]")?;
    let milliseconds = words.get(2).map_or(Ok(2_000), |text| text.parse()).map_err(|error| format!("time: {error}"))?;
    for bytes in SIZES {
        let rate = reads_a_second(Path::new(path), bytes, Duration::from_millis(milliseconds))?;
        println!("{bytes:>6} B  {rate:>9.0} reads/s  {:>7.1} MB/s", rate * f64::from(bytes) / 1e6);
    }
    Ok(())
}
