//! libFuzzer entry of [`qanat_fuzz::tenant::tenant`].
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| qanat_fuzz::tenant::tenant(data));
