//! libFuzzer entry of [`qanat_fuzz::stack::stack`].
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| qanat_fuzz::stack::stack(data));
