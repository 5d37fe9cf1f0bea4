//! libFuzzer entry of [`qanat_fuzz::kv_dump::kv_dump`].
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| qanat_fuzz::kv_dump::kv_dump(data));
