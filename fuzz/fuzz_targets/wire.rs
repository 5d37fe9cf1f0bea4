//! libFuzzer entry of [`qanat_fuzz::wire::wire`].
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| qanat_fuzz::wire::wire(data));
