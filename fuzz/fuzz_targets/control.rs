//! libFuzzer entry of [`qanat_fuzz::control::control`].
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| qanat_fuzz::control::control(data));
