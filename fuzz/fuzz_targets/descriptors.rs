//! libFuzzer entry of [`qanat_fuzz::descriptors::descriptors`].
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| qanat_fuzz::descriptors::descriptors(data));
