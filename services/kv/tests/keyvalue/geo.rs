//! Places and their answers, as Redis 7.0 gives them.

use crate::client::Store;

#[test]
fn places_are_added_and_told() {
    Store::new(1).hears(&[
        ("geoadd sicily 13.361389 38.115556 Palermo 15.087269 37.502669 Catania", ":2"),
        ("geoadd sicily 13.361389 38.115556 Palermo", ":0"),
        ("geoadd sicily nx 1 1 Palermo 14 37 Gela", ":1"),
        ("geoadd sicily xx ch 14.25 37.07 Gela 1 1 new", ":1"),
        ("geopos sicily Palermo new Catania", "*3 *2 $20 13.36138933897018433 $20 38.11555639549629859 *-1 *2 $20 15.08726745843887329 $20 37.50266842333162032"),
        ("zscore sicily Palermo", "$16 3479099956230698"),
        ("geohash sicily Palermo new Catania", "*3 $11 sqc8b49rny0 $-1 $11 sqdtr74hyu0"),
        ("geodist sicily Palermo Catania", "$11 166274.1516"),
        ("geodist sicily Palermo Catania km", "$8 166.2742"),
        ("geodist sicily Palermo Catania FT", "$11 545518.8700"),
        ("geodist sicily Palermo Catania mi", "$8 103.3182"),
        ("geodist sicily Palermo new", "$-1"),
        ("geodist none a b", "$-1"),
        ("geopos none a", "*1 *-1"),
        ("geohash none a", "*1 $-1"),
        ("geopos sicily", "*0"),
        ("geoadd s 180 85.05112878 corner -180 -85.05112878 other 0 0 middle", ":3"),
        ("zrange s 0 -1 withscores", "*6 $5 other $1 0 $6 middle $16 3377699720527872 $6 corner $17 13510798882111488"),
        ("geopos s corner other middle", "*3 *2 $3 180 $19 85.0511287799999991 *2 $22 -179.99999731779098511 $21 -85.05112751263942528 *2 $19 0.00000268220901489 $19 0.00000126736058093"),
        ("geohash s corner other middle", "*3 $11 bp05b5048p0 $11 00bh0hbj200 $11 s0000000000"),
        ("type sicily", "+zset"),
        ("object encoding sicily", "$8 listpack"),
    ]);
}

#[test]
fn places_are_searched_by_circles_and_boxes() {
    Store::new(1).hears(&[
        ("geoadd sicily 13.361389 38.115556 Palermo 15.087269 37.502669 Catania", ":2"),
        ("geoadd sicily 12.758489 38.788135 edge1 17.241510 38.788135 edge2", ":2"),
        ("geosearch sicily fromlonlat 15 37 byradius 200 km asc", "*2 $7 Catania $7 Palermo"),
        ("geosearch sicily fromlonlat 15 37 byradius 200 km desc withdist withcoord withhash", "*2 *4 $7 Palermo $8 190.4424 :3479099956230698 *2 $20 13.36138933897018433 $20 38.11555639549629859 *4 $7 Catania $7 56.4413 :3479447370796909 *2 $20 15.08726745843887329 $20 37.50266842333162032"),
        ("geosearch sicily fromlonlat 15 37 bybox 400 400 km asc withdist", "*4 *2 $7 Catania $7 56.4413 *2 $7 Palermo $8 190.4424 *2 $5 edge2 $8 279.7403 *2 $5 edge1 $8 279.7405"),
        ("geosearch sicily frommember Catania bybox 400 400 km desc count 2", "*2 $5 edge2 $7 Palermo"),
        ("geosearch sicily frommember Catania byradius 500 km count 2 any", "*2 $7 Palermo $5 edge1"),
        ("geosearch sicily frommember Palermo byradius 0 m", "*1 $7 Palermo"),
        ("geosearch sicily fromlonlat 0 0 byradius 1 km", "*0"),
        ("geosearch none frommember x byradius 1 km", "*0"),
        ("geosearch sicily byradius 30000 km fromlonlat 0 0 asc", "*4 $7 Catania $7 Palermo $5 edge1 $5 edge2"),
        ("georadius sicily 15 37 200 km asc", "*2 $7 Catania $7 Palermo"),
        ("georadius_ro sicily 15 37 200 km withdist asc", "*2 *2 $7 Catania $7 56.4413 *2 $7 Palermo $8 190.4424"),
        ("georadiusbymember sicily Palermo 200 km asc withhash", "*3 *2 $7 Palermo :3479099956230698 *2 $5 edge1 :3479273021651468 *2 $7 Catania :3479447370796909"),
        ("georadiusbymember_ro sicily Palermo 100 mi desc", "*2 $5 edge1 $7 Palermo"),
        ("georadiusbymember none x y z", "*0"),
    ]);
}

#[test]
fn what_was_found_is_stored() {
    Store::new(1).hears(&[
        ("geoadd sicily 13.361389 38.115556 Palermo 15.087269 37.502669 Catania", ":2"),
        ("geosearchstore near sicily fromlonlat 15 37 byradius 200 km", ":2"),
        ("zrange near 0 -1 withscores", "*4 $7 Palermo $16 3479099956230698 $7 Catania $16 3479447370796909"),
        ("geosearchstore far sicily fromlonlat 15 37 byradius 200 km asc count 1 storedist", ":1"),
        ("zrange far 0 -1", "*1 $7 Catania"),
        ("georadius sicily 15 37 200 km store near storedist far", ":2"),
        ("zcard far", ":2"),
        ("georadius sicily 0 0 1 m store near", ":0"),
        ("exists near", ":0"),
        ("expire far 100", ":1"),
        ("georadiusbymember sicily Palermo 1 km storedist far", ":1"),
        ("ttl far", ":-1"),
        ("zrange far 0 -1 withscores", "*2 $7 Palermo $1 0"),
        ("geosearchstore far none frommember a byradius 1 m", ":0"),
        ("exists far", ":0"),
        ("set far x", "+OK"),
        ("geosearchstore far sicily frommember Palermo byradius 1 m", ":1"),
        ("type far", "+zset"),
        ("command getkeys georadius k 1 1 1 m asc storedist b", "*2 $1 k $1 b"),
        ("command getkeys georadiusbymember k m 1 m asc", "*1 $1 k"),
        ("command getkeys geosearchstore a b c d e f g", "*2 $1 a $1 b"),
    ]);
}

#[test]
fn searches_that_make_no_sense_are_refused() {
    Store::new(1).hears(&[
        ("geoadd sicily 13.361389 38.115556 Palermo 15.087269 37.502669 Catania", ":2"),
        ("geoadd g nx xx 1 1 a", "-ERR syntax error"),
        ("geoadd g 1 1 a 2", "-ERR syntax error"),
        ("geoadd g nx nx nx", "-ERR syntax error"),
        ("geoadd g 200 100 a", "-ERR invalid longitude,latitude pair 200.000000,100.000000"),
        ("geoadd g x 1 a", "-ERR value is not a valid float"),
        ("geoadd g 1 1", "-ERR wrong number of arguments for 'geoadd' command"),
        ("geodist sicily Palermo Catania parsec", "-ERR unsupported unit provided. please use M, KM, FT, MI"),
        ("geodist sicily Palermo Catania m m", "-ERR syntax error"),
        (
            "geosearch sicily frommember Palermo asc desc withdist",
            "-ERR exactly one of BYRADIUS and BYBOX can be specified for geosearch",
        ),
        (
            "geosearch sicily byradius 1 m asc desc asc",
            "-ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for geosearch",
        ),
        ("geosearch sicily frommember nobody byradius 1 km", "-ERR could not decode requested zset member"),
        ("geosearch sicily frommember Palermo byradius -1 km", "-ERR radius cannot be negative"),
        ("geosearch sicily frommember Palermo byradius x km", "-ERR need numeric radius"),
        (
            "geosearch sicily frommember Palermo byradius 1 parsec",
            "-ERR unsupported unit provided. please use M, KM, FT, MI",
        ),
        ("geosearch sicily frommember Palermo bybox 1 -1 km", "-ERR height or width cannot be negative"),
        ("geosearch sicily frommember Palermo bybox x 1 km", "-ERR need numeric width"),
        ("geosearch sicily frommember Palermo bybox 1 x km", "-ERR need numeric height"),
        ("geosearch sicily frommember Palermo byradius 1 km bybox 1 1 km", "-ERR syntax error"),
        ("geosearch sicily frommember Palermo fromlonlat 1 1 byradius 1 km", "-ERR syntax error"),
        ("geosearch sicily fromlonlat 1 91 byradius 1 km", "-ERR invalid longitude,latitude pair 1.000000,91.000000"),
        ("geosearch sicily frommember Palermo byradius 1 km count 0", "-ERR COUNT must be > 0"),
        ("geosearch sicily frommember Palermo byradius 1 km count x", "-ERR value is not an integer or out of range"),
        ("geosearch sicily frommember Palermo byradius 1 km any", "-ERR the ANY argument requires COUNT argument"),
        ("geosearch sicily frommember Palermo byradius 1 km store k", "-ERR syntax error"),
        (
            "geosearchstore k sicily frommember Palermo byradius 1 km withdist",
            "-ERR GEOSEARCHSTORE is not compatible with WITHDIST, WITHHASH and WITHCOORD options",
        ),
        (
            "georadius sicily 1 1 1 km store k withcoord",
            "-ERR STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and WITHCOORD options",
        ),
        ("georadius_ro sicily 1 1 1 km store k", "-ERR syntax error"),
        ("georadius sicily 1 1 1 km fromlonlat 1 1", "-ERR syntax error"),
        ("georadiusbymember sicily nobody 1 km", "-ERR could not decode requested zset member"),
        ("set k v", "+OK"),
        ("geoadd k 1 1 a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("geopos k a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        (
            "geosearch k fromlonlat 1 1 byradius 1 m",
            "-WRONGTYPE Operation against a key holding the wrong kind of value",
        ),
    ]);
}
