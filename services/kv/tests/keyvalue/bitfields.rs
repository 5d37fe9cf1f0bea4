//! BITFIELD and its answers, as Redis 7.0 gives them.

use crate::client::Store;

#[test]
fn fields_are_read_written_and_added_to() {
    Store::new(1).hears(&[
        ("bitfield b", "*0"),
        ("exists b", ":0"),
        ("bitfield b get u8 0 get i5 100", "*2 :0 :0"),
        ("exists b", ":0"),
        ("bitfield b set u8 0 255 get u4 4 get i4 4", "*3 :0 :15 :-1"),
        ("bitfield b set i8 #1 -2 get u8 #1 incrby i8 #1 -126 incrby i8 #1 -1", "*4 :0 :254 :-128 :127"),
        ("get b", "$2 \\xff\\x7f"),
        ("bitfield b incrby u2 100 1 overflow sat incrby u2 102 5", "*2 :1 :3"),
        ("strlen b", ":13"),
        (
            "bitfield b set i64 3 -9223372036854775808 get i64 3 incrby i64 3 -1",
            "*3 :-290482175965396992 :-9223372036854775808 :9223372036854775807",
        ),
        ("bitfield b set u63 #1 9223372036854775807 get u63 #1", "*2 :8646911284580712448 :9223372036854775807"),
        ("bitfield_ro b get u8 0 get i64 3", "*2 :239 :9223372036854775807"),
        ("bitfield_ro none get u8 0", "*1 :0"),
    ]);
}

#[test]
fn numbers_that_do_not_fit_wrap_saturate_or_fail() {
    Store::new(1).hears(&[
        ("bitfield b overflow wrap set u8 0 257 incrby u8 0 255 incrby i8 8 127 incrby i8 8 1", "*4 :0 :0 :127 :-128"),
        (
            "bitfield b overflow sat set u8 0 257 incrby u8 0 -300 incrby i8 8 -200 incrby i8 8 1000",
            "*4 :0 :0 :-128 :127",
        ),
        ("bitfield b overflow fail set u8 0 257 incrby u8 0 -300 incrby i8 8 1 get i8 8", "*4 $-1 $-1 $-1 :127"),
        ("bitfield b set u8 0 -1", "*1 :0"),
        ("bitfield b overflow fail incrby u8 200 1000", "*1 $-1"),
        ("strlen b", ":26"),
        (
            "bitfield b incrby i64 0 9223372036854775807 overflow fail incrby i64 0 1",
            "*2 :9187061764859101183 :9187061764859101184",
        ),
    ]);
}

#[test]
fn what_is_no_field_is_refused() {
    Store::new(1).hears(&[
        (
            "bitfield b get u64 0",
            "-ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
        ),
        (
            "bitfield b get i65 0",
            "-ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
        ),
        (
            "bitfield b get i0 0",
            "-ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
        ),
        (
            "bitfield b get x8 0",
            "-ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
        ),
        ("bitfield b get u8 -1", "-ERR bit offset is not an integer or out of range"),
        ("bitfield b get u8 #-1", "-ERR bit offset is not an integer or out of range"),
        ("bitfield b get u8 4294967296", "-ERR bit offset is not an integer or out of range"),
        ("bitfield b get u8 x", "-ERR bit offset is not an integer or out of range"),
        ("bitfield b set u8 0", "-ERR syntax error"),
        ("bitfield b set u8 0 x", "-ERR value is not an integer or out of range"),
        ("bitfield b overflow nonsense get u8 0", "-ERR Invalid OVERFLOW type specified"),
        ("bitfield b overflow", "-ERR syntax error"),
        ("bitfield b nonsense u8 0", "-ERR syntax error"),
        ("bitfield_ro b set u8 0 1", "-ERR BITFIELD_RO only supports the GET subcommand"),
        ("bitfield", "-ERR wrong number of arguments for 'bitfield' command"),
        ("lpush l a", ":1"),
        ("bitfield l get u8 0", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("bitfield l set u8 0 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("exists b", ":0"),
    ]);
}

/// Some bytes of a request make a string of megabytes, which the next checkpoint has to write.
#[test]
fn a_string_that_the_log_has_no_room_for_is_not_made() {
    let mut store = Store::new(1);
    store.state.log.room = 1 << 20;
    for line in ["bitfield b set u8 #9000000 1", "setbit b 80000000 1", "setrange b 9000000 x"] {
        assert!(store.line(line).starts_with("-OOM "), "{line}");
    }
    store.hears(&[("exists b", ":0"), ("bitfield b set u8 #900000 1", "*1 :0"), ("strlen b", ":900001")]);
}
