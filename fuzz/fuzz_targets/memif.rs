//! libFuzzer entry of [`qanat_fuzz::memif::memif`].
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| qanat_fuzz::memif::memif(data));
