//! Whatever is done to a keyspace: its records, applied to an empty one, give the same; and a checkpoint that is walked meanwhile does, too.

use crate::client::{Store, contents};
use proptest::prelude::*;
use qanat_kv::keyspace::memory;
use qanat_kv::keyspace::space::Keyspace;

/// A request of many kinds, over few keys and elements, so that they meet.
pub fn request() -> impl Strategy<Value = String> {
    let key = prop::sample::select(vec!["a", "b", "c", "d"]);
    let other = prop::sample::select(vec!["a", "b", "c", "d"]);
    let word = prop::sample::select(vec!["x", "y", "zz", "7", "-1", "3.5"]);
    let form = prop::sample::select(vec![
        "set K W",
        "set K W px 5",
        "append K W",
        "setrange K 3 W",
        "setbit K 9 1",
        "incr K",
        "del K",
        "expire K 1",
        "persist K",
        "rename K O",
        "copy K O replace",
        "move K 1",
        "flushdb",
        "hset K W V",
        "hdel K W",
        "hincrby K W 2",
        "lpush K W V",
        "rpush K W",
        "lpop K",
        "rpop K 2",
        "linsert K before W V",
        "lset K 0 V",
        "lrem K 1 W",
        "ltrim K 1 2",
        "lmove K O left right",
        "sadd K W V",
        "srem K W",
        "spop K",
        "smove K O W",
        "sunionstore K O K",
        "zadd K 1 W 2 V",
        "zadd K 5 W",
        "zrem K W",
        "zpopmax K",
        "zincrby K 2 W",
        "zunionstore K 2 O K",
        "getdel K",
        "zrangestore K O 0 1",
        "xadd K * W V",
        "xadd K nomkstream maxlen 3 * W V",
        "xdel K 1000-1 1000-2",
        "xtrim K maxlen 1",
        "xsetid K 99999999-1 entriesadded 50",
        "xgroup create K W $ mkstream",
        "xgroup create K x 0 entriesread 3",
        "xgroup setid K W 0",
        "xgroup destroy K W",
        "xgroup createconsumer K x V",
        "xgroup delconsumer K x V",
        "xreadgroup group x V count 2 streams K >",
        "xreadgroup group x V noack streams K >",
        "xreadgroup group x V streams K 0",
        "xclaim K x W 0 1000005-0 1000006-0 1000007-0 force",
        "xautoclaim K x W 0 -",
        "xack K x 1000005-0 1000006-0 1000009-0",
        "select 1",
        "select 0",
        "swapdb 0 1",
        "swapdb 1 0",
        "pfadd K W V",
        "pfadd K O K W",
        "pfcount K",
        "pfmerge K O",
        "pfdebug todense K",
        "geoadd K 13.4 38.1 W 2.3 48.8 V",
        "geosearchstore K O fromlonlat 10 40 byradius 2000 km",
        "georadius K 10 40 2000 km storedist O",
        "bitfield K set u5 3 17 incrby i7 #2 -9",
        "bitfield K overflow fail incrby u2 100 3 overflow sat incrby u2 100 3",
        "sort K alpha desc store O",
        "sort K by nosort get # get O* store K",
        "del K O",
        "restore K 0 \"\\x00\\x05hello\\n\\x00cr\\xdfve4 \\n\" replace",
        "eval \"redis.call('set', KEYS[1], ARGV[1]) redis.call('append', KEYS[1], 'x') return redis.call('hset', KEYS[1], 'f', 1)\" 1 K W",
        "function load replace \"#!lua name=K\\nredis.register_function('K', function() return 'W' end)\"",
        "function delete K",
    ]);
    (form, key, other, word.clone(), word).prop_map(|(form, key, other, word, value)| {
        let words = form.split(' ').map(|part| match part {
            "K" => key,
            "O" => other,
            "W" => word,
            "V" => value,
            part => part,
        });
        let line = words.collect::<Vec<_>>().join(" ");
        line.replace("=K", &format!("={key}")).replace("'K'", &format!("'{key}'"))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn records_give_the_same_keyspace(requests in prop::collection::vec(request(), 0..120), begins in 0_usize..60) {
        let mut store = Store::new(1);
        let (mut all, mut since, mut walk) = (Keyspace::default(), Keyspace::default(), None);
        for (index, request) in requests.iter().enumerate() {
            store.line(request);
            store.state.keyspace.now_ms += 1;
            let record = store.state.keyspace.record().to_vec();
            store.state.keyspace.clear_record();
            prop_assert!(all.replay(&record));
            if walk.is_some() {
                // What came before the checkpoint began is not known to who recovers from it.
                prop_assert!(since.replay(&record));
            } else if index == begins {
                walk = Some((store.state.keyspace.walk(), true));
            }
            if let Some((walk, goes_on)) = &mut walk {
                let mut records = Vec::new();
                *goes_on = *goes_on && store.state.keyspace.dump_next(walk, &mut records);
                for record in &records {
                    prop_assert!(since.replay(record.bytes()));
                }
            }
        }
        prop_assert_eq!(contents(&all), contents(&store.state.keyspace));
        prop_assert_eq!(all.bytes(), store.state.keyspace.bytes());
        prop_assert_eq!(all.memory(), store.state.keyspace.memory());
        let keys = (0..16).flat_map(|number| all.database(number).iter());
        prop_assert_eq!(keys.map(|(key, entry)| memory::of_key(key, &entry.value, entry.expires != 0)).sum::<usize>(), all.memory());
        if let Some((mut walk, _)) = walk {
            let mut records = Vec::new();
            while store.state.keyspace.dump_next(&mut walk, &mut records) {}
            for record in &records {
                prop_assert!(since.replay(record.bytes()));
            }
            prop_assert_eq!(contents(&since), contents(&store.state.keyspace));
        }
    }
}
