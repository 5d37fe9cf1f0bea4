//! libFuzzer entry of [`qanat_fuzz::kv::kv`].
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| qanat_fuzz::kv::kv(data));
