//! libFuzzer entry of [`qanat_fuzz::http2::http2`].
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| qanat_fuzz::http2::http2(data));
