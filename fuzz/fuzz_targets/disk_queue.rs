//! libFuzzer entry of [`qanat_fuzz::disk_queue::disk_queue`].
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| qanat_fuzz::disk_queue::disk_queue(data));
