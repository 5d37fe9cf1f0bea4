//! libFuzzer entry of [`qanat_fuzz::cache::cache`].
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| qanat_fuzz::cache::cache(data));
