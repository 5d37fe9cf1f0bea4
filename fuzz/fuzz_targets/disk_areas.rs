//! libFuzzer entry of [`qanat_fuzz::disk_areas::disk_areas`].
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| qanat_fuzz::disk_areas::disk_areas(data));
