//! Types and response codes that are counted by themselves.

/// Types with a count of their own; all others share the last place.
pub const TYPES: [(u16, &str); 15] = [
    (1, "A"),
    (2, "NS"),
    (5, "CNAME"),
    (6, "SOA"),
    (12, "PTR"),
    (15, "MX"),
    (16, "TXT"),
    (28, "AAAA"),
    (33, "SRV"),
    (43, "DS"),
    (48, "DNSKEY"),
    (64, "SVCB"),
    (65, "HTTPS"),
    (255, "ANY"),
    (0, "other"),
];

/// Response codes with a count of their own; all others share the last place.
pub const RCODES: [(u8, &str); 10] = [
    (0, "NOERROR"),
    (1, "FORMERR"),
    (2, "SERVFAIL"),
    (3, "NXDOMAIN"),
    (4, "NOTIMP"),
    (5, "REFUSED"),
    (6, "YXDOMAIN"),
    (9, "NOTAUTH"),
    (16, "BADVERS"),
    (255, "other"),
];

/// The place of each number below 256 in a table that ends with a place for all others.
const fn places<const N: usize>(numbers: [u16; N]) -> [u8; 256] {
    let mut places = [N as u8 - 1; 256];
    let mut index = 0;
    while index + 1 < N {
        places[numbers[index] as usize] = index as u8;
        index += 1;
    }
    places
}

/// The place of a type in [`TYPES`].
#[inline(always)]
pub fn type_place(rtype: u16) -> u8 {
    TYPE_PLACES.get(usize::from(rtype)).copied().unwrap_or(TYPES.len() as u8 - 1)
}

/// The place of a response code in [`RCODES`].
#[inline(always)]
pub fn rcode_place(rcode: u8) -> u8 {
    RCODE_PLACES.get(usize::from(rcode)).copied().unwrap_or(0)
}

const TYPE_PLACES: [u8; 256] = {
    let mut numbers = [0; TYPES.len()];
    let mut index = 0;
    while index < TYPES.len() {
        numbers[index] = TYPES[index].0;
        index += 1;
    }
    places(numbers)
};

const RCODE_PLACES: [u8; 256] = {
    let mut numbers = [0; RCODES.len()];
    let mut index = 0;
    while index < RCODES.len() {
        numbers[index] = RCODES[index].0 as u16;
        index += 1;
    }
    places(numbers)
};
