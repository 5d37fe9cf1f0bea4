//! libFuzzer entry of [`qanat_fuzz::dns_transfer::dns_transfer`].
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| qanat_fuzz::dns_transfer::dns_transfer(data));
