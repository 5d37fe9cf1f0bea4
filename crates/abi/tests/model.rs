//! The ring under a model checker: every order in which two threads' memory accesses may take effect, as far as bounded.
//! The ring's own source is compiled here over the checker's atomics.

mod sync {
    pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
}
#[allow(dead_code, unreachable_pub, missing_docs, reason = "the crate's source, of which a part is modelled")]
#[path = "../src/ring.rs"]
mod ring;

use loom::sync::Arc;
use ring::{Consumer, Place, Producer, RingHeader, Slot};

struct Modelled {
    header: RingHeader,
    slots: Vec<Slot>,
}

#[derive(Clone)]
struct Shared(Arc<Modelled>);

impl Place for Shared {
    fn header(&self) -> &RingHeader {
        &self.0.header
    }
    fn slots(&self) -> &[Slot] {
        &self.0.slots
    }
}

fn shared(capacity: usize) -> Shared {
    let slots = (0..capacity).map(|_| Slot::new()).collect();
    Shared(Arc::new(Modelled { header: RingHeader::new(), slots }))
}

fn check(body: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(body);
}

#[test]
fn messages_arrive_whole_once_and_in_order() {
    check(|| {
        let place = shared(2);
        let mut producer = Producer::new(place.clone());
        let sender = loom::thread::spawn(move || {
            let mut number = 1;
            while number <= 3 {
                if producer.push([number, number * 10, 0, number]).unwrap() {
                    number += 1;
                } else {
                    loom::thread::yield_now();
                }
                producer.publish();
            }
        });
        let mut consumer = Consumer::new(place);
        let mut expected = 1;
        while expected <= 3 {
            match consumer.pop() {
                Some(words) => {
                    assert_eq!(words, [expected, expected * 10, 0, expected]);
                    expected += 1;
                    consumer.release();
                }
                None => loom::thread::yield_now(),
            }
        }
        assert_eq!(consumer.pop(), None);
        sender.join().unwrap();
    });
}

#[test]
fn no_wake_up_is_lost() {
    check(|| {
        let place = shared(2);
        let bell = Arc::new(loom::sync::Mutex::new(false));
        let rung = Arc::new(loom::sync::Condvar::new());
        let mut producer = Producer::new(place.clone());
        let (its_bell, its_rung) = (bell.clone(), rung.clone());
        let sender = loom::thread::spawn(move || {
            for number in 1..=2 {
                assert!(producer.push([number; 4]).unwrap());
                producer.publish();
                if producer.must_wake() {
                    *its_bell.lock().unwrap() = true;
                    its_rung.notify_one();
                }
            }
        });
        let mut consumer = Consumer::new(place);
        let mut taken = 0;
        while taken < 2 {
            while consumer.pop().is_some() {
                taken += 1;
            }
            if taken < 2 && consumer.falls_asleep() {
                // Without the fences this waits for ever in some order, which the checker calls a deadlock.
                let mut ringing = bell.lock().unwrap();
                while !*ringing {
                    ringing = rung.wait(ringing).unwrap();
                }
                *ringing = false;
                drop(ringing);
                consumer.wakes();
            }
        }
        sender.join().unwrap();
    });
}
