//! libFuzzer entry of [`qanat_fuzz::wire_emit::wire_emit`].
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| qanat_fuzz::wire_emit::wire_emit(data));
