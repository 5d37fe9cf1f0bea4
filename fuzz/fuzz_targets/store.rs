//! libFuzzer entry of [`qanat_fuzz::store::store`].
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| qanat_fuzz::store::store(data));
