//! libFuzzer entry of [`qanat_fuzz::tls::tls`].
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| qanat_fuzz::tls::tls(data));
