//! libFuzzer entry of [`qanat_fuzz::differential::differential`].
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| qanat_fuzz::differential::differential(data));
