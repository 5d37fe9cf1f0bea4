use super::*;
use crate::content::head::{Representation, prepared_head};
use crate::http::date;
use proptest::prelude::*;
use qanat::nic::Region;

fn memory(frames: u32, copies_max: usize) -> Rc<DeviceMemory> {
    let pool = (frames > 0).then(|| Region::new(frames, 2048).unwrap().pool(frames).unwrap());
    Rc::new(DeviceMemory {
        pool,
        headroom: 192,
        copies_max,
        dates: DateCache::new(),
        frames: Cell::new(0),
        hits: Cell::new(0),
        misses: Cell::new(0),
        exhausted: Cell::new(false),
    })
}

fn object(body: &[u8], payload_bytes: usize, memory: &Rc<DeviceMemory>) -> Object {
    let representation = Representation {
        media_type: "text/plain",
        etag: "\"1-2\"".into(),
        last_modified: 1,
        coding: None,
        varies: false,
        cache_control: None,
        common: String::new(),
    };
    let mut master = prepared_head(&representation, body.len() as u64);
    let head_length = master.len();
    master.extend_from_slice(body);
    Object::new(PreparedBytes::new(master, head_length, payload_bytes), Rc::clone(memory))
}

/// The stream an object should be, made independently of `fill`.
fn expected(object: &Object, stamp: Stamp) -> Vec<u8> {
    let mut bytes = object.bytes.master.to_vec();
    let date = date::format(stamp.seconds);
    bytes[DATE_OFFSET..DATE_OFFSET + 29].copy_from_slice(&date);
    let close: &[u8] = if stamp.close { b"     close" } else { b"keep-alive" };
    bytes[CONNECTION_OFFSET..CONNECTION_OFFSET + 10].copy_from_slice(close);
    bytes
}

fn ready(object: &Object, stamp: Stamp, offset: usize) -> Option<(Rc<Frame>, Vec<u8>)> {
    let mut seen = None;
    let frame = object.ready(stamp.pack(), offset as u64, &mut |frame, sum| {
        assert_eq!(checksum::sum(frame.bytes()), sum, "the payload's sum");
        seen = Some(frame.bytes().to_vec());
        frame.prepend(66).unwrap().fill(0xee);
    })?;
    assert_eq!(&frame.bytes()[66..], seen.as_deref().unwrap());
    Some((frame, seen.unwrap()))
}

#[test]
fn copies_rotate_and_are_bounded() {
    let memory = memory(8, 3);
    let object = object(&[7; 1000], 1448, &memory);
    let stamp = |seconds| Stamp { seconds, close: false };
    let held: Vec<_> = (0..3).map(|second| ready(&object, stamp(second), 0).unwrap()).collect();
    for (second, (_, bytes)) in held.iter().enumerate() {
        assert_eq!(*bytes, expected(&object, stamp(second as u64)));
    }
    assert!(ready(&object, stamp(0), 0).is_none(), "the cap");
    assert_eq!(memory.misses.get(), 1);
    drop(held);
    for second in 0..10 {
        let (frame, bytes) = ready(&object, stamp(second), 0).unwrap();
        assert_eq!(bytes, expected(&object, stamp(second)));
        drop(frame);
    }
    assert_eq!(memory.frames.get(), 3);
    let pool = memory.pool.clone().unwrap();
    let (frame, _) = ready(&object, stamp(0), 0).unwrap();
    drop(object);
    assert_eq!(memory.frames.get(), 0);
    assert_eq!(pool.in_use_count(), 1, "the one in flight stays");
    drop(frame);
    assert_eq!(pool.in_use_count(), 0);
}

#[test]
fn an_empty_pool_falls_back() {
    let memory = memory(1, 8);
    let object = object(&[7; 3000], 1448, &memory);
    let stamp = Stamp { seconds: 1, close: true };
    let first = ready(&object, stamp, 0);
    assert!(first.is_some());
    assert!(ready(&object, stamp, 1448).is_none());
    assert!(memory.exhausted.get());
    assert!(ready(&object, stamp, 5).is_none(), "not a boundary");
    assert!(ready(&object, stamp, 1448 * 100).is_none(), "beyond the end");
    assert_eq!(object.boundary(0, 0), Some(1448));
    assert_eq!(object.boundary(0, 1440), Some(8));
    assert_eq!(object.boundary(0, object.length()), None);
    assert_eq!(object.boundary(0, object.length() - 1), Some(1));
}

proptest! {
    /// Every range, in any order, by either way, under any stamp, is exactly the stream, and every sum offered is right.
    #[test]
    fn any_segmentation_any_order(
        body in proptest::collection::vec(any::<u8>(), 0..6000),
        payload_bytes in 200usize..1500,
        pre_copy: bool,
        requests in proptest::collection::vec((0usize..7000, 1usize..3000, 0u64..4, any::<bool>(), any::<bool>()), 1..40),
    ) {
        let memory = memory(if pre_copy { 32 } else { 0 }, 4);
        let object = object(&body, payload_bytes, &memory);
        let size = object.bytes.payload_bytes;
        let total = object.length() as usize;
        let mut in_flight = Vec::new();
        for (place, length, seconds, close, aligned) in requests {
            let stamp = Stamp { seconds, close };
            let bytes = expected(&object, stamp);
            if aligned {
                let offset = (place / size * size).min((total - 1) / size * size);
                let end = offset + object.boundary(stamp.pack(), offset as u64).unwrap();
                if let Some((frame, got)) = ready(&object, stamp, offset) {
                    prop_assert_eq!(&got, &bytes[offset..end]);
                    in_flight.push(frame);
                    if in_flight.len() > 5 { in_flight.remove(seconds as usize); }
                }
                let mut target = vec![0xaa; end - offset];
                let fill = object.fill(stamp.pack(), offset as u64, &mut target);
                prop_assert_eq!(&target, &bytes[offset..end]);
                prop_assert_eq!(fill.sum, Some(checksum::sum(&target)));
                let mut rest = vec![0xaa; total - offset];
                let fill = object.fill(stamp.pack(), offset as u64, &mut rest);
                prop_assert_eq!(fill.sum, Some(checksum::sum(&rest)));
            } else {
                let offset = place.min(total - 1);
                let end = (offset + length).min(total);
                let mut target = vec![0xaa; end - offset];
                let fill = object.fill(stamp.pack(), offset as u64, &mut target);
                prop_assert_eq!(&target, &bytes[offset..end]);
                if let Some(sum) = fill.sum {
                    prop_assert_eq!(sum, checksum::sum(&target));
                }
            }
        }
        drop(in_flight);
        drop(object);
        if let Some(pool) = &memory.pool { prop_assert_eq!(pool.in_use_count(), 0); }
    }
}
