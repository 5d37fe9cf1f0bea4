//! libFuzzer entry of [`qanat_fuzz::dns::dns_question`].
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| qanat_fuzz::dns::dns_question(data));
