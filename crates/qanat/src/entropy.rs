//! Unpredictable bytes.

/// Unpredictable bytes from the kernel, to seed a stack with.
///
/// # Errors
/// What `getrandom` says.
pub fn entropy() -> std::io::Result<[u8; 32]> {
    let mut seed = [0; 32];
    let mut filled = 0;
    while filled < seed.len() {
        filled += rustix::rand::getrandom(&mut seed[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(seed)
}
