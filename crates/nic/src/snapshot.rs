//! Frames in a snapshot of who holds them, for another process to go on with: what is written is *where* a frame is, never
//! what is in it, since its memory is handed over as it lies.
//!
//! ```text
//!   writing(pools, …)   Frame ─▶ pool, number, window         and a mark that it was written
//!   reading(pools, …)   pool, number, window ─▶ Frame         claimed once; what nobody claims is free
//! ```
//! Within these calls, and nowhere else, frames can be serialized. One that is of no pool named is written with its bytes, and
//! gets memory of its own where it is read.

use crate::memory::{Frame, Pool, Region};
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::cell::RefCell;

thread_local! {
    /// Of the call under way.
    static SCOPE: RefCell<Option<Scope>> = const { RefCell::new(None) };
}

struct Scope {
    pools: Vec<Pool>,
    /// By pool, then by frame of its region. Writing: it was written. Reading: it can be claimed.
    marks: Vec<Vec<bool>>,
    is_reading: bool,
}

/// A frame as it is written.
#[derive(Serialize, Deserialize)]
pub(crate) enum Place {
    Of { pool: u8, index: u32, start: u32, length: u32, continues: bool },
    Elsewhere { headroom: u32, capacity: u32, bytes: Vec<u8>, continues: bool },
}

/// Marks those of `indices`.
fn mark(marks: &mut [bool], indices: &[u32]) {
    for index in indices {
        if let Some(mark) = marks.get_mut(*index as usize) {
            *mark = true;
        }
    }
}

/// Ends the scope, however the call ends.
struct Ending;

impl Drop for Ending {
    fn drop(&mut self) {
        SCOPE.take();
    }
}

/// Runs `write`, in which frames can be serialized. It is given a function that says which frames of a pool, by its number
/// here, were neither written so far nor are free.
pub fn writing<T>(pools: &[&Pool], write: impl FnOnce(&dyn Fn(usize) -> Vec<u32>) -> T) -> T {
    let pools: Vec<Pool> = pools.iter().map(|pool| (*pool).clone()).collect();
    let marks = pools.iter().map(|pool| vec![false; pool.region().frame_count() as usize]).collect();
    SCOPE.set(Some(Scope { pools, marks, is_reading: false }));
    let _ending = Ending;
    write(&|number| {
        SCOPE.with_borrow(|scope| {
            let Some((pool, marks)) = scope.as_ref().and_then(|s| Some((s.pools.get(number)?, s.marks.get(number)?)))
            else {
                return Vec::new();
            };
            let mut is_known = marks.clone();
            mark(&mut is_known, &pool.free_indices());
            let own = pool.first_index()..pool.first_index() + pool.frame_count();
            own.filter(|index| is_known.get(*index as usize) == Some(&false)).collect()
        })
    })
}

/// Runs `read`, in which frames can be deserialized: each of those that are free in `pools`, once. What is not claimed is free
/// afterwards, and so is all that `read` drops.
pub fn reading<T>(pools: &[&Pool], read: impl FnOnce() -> T) -> T {
    let pools: Vec<Pool> = pools.iter().map(|pool| (*pool).clone()).collect();
    let free: Vec<Vec<u32>> = pools.iter().map(Pool::take_all_free).collect();
    let marked = |(pool, free): (&Pool, &Vec<u32>)| {
        let mut marks = vec![false; pool.region().frame_count() as usize];
        mark(&mut marks, free);
        marks
    };
    let marks = pools.iter().zip(&free).map(marked).collect();
    SCOPE.set(Some(Scope { pools, marks, is_reading: true }));
    let ending = Ending;
    let outcome = read();
    if let Some(Scope { pools, marks, .. }) = SCOPE.take() {
        for ((pool, marks), free) in pools.iter().zip(marks).zip(free) {
            pool.put_back(free.into_iter().filter(|index| marks.get(*index as usize) == Some(&true)));
        }
    }
    drop(ending);
    outcome
}

impl Scope {
    fn note(&mut self, frame: &Frame) -> Place {
        let (start, length, continues) = (frame.headroom() as u32, frame.len() as u32, frame.continues());
        let number = self.pools.iter().position(|pool| frame.is_from(pool));
        let mark = number.and_then(|number| self.marks.get_mut(number)?.get_mut(frame.index() as usize));
        match (number.and_then(|number| u8::try_from(number).ok()), mark) {
            (Some(pool), Some(mark)) => {
                *mark = true;
                Place::Of { pool, index: frame.index(), start, length, continues }
            }
            _ => {
                let capacity = frame.capacity() as u32;
                Place::Elsewhere { headroom: start, capacity, bytes: frame.bytes().to_vec(), continues }
            }
        }
    }

    fn claim(&mut self, place: Place) -> Option<Frame> {
        match place {
            Place::Of { pool, index, start, length, continues } => {
                let mark = self.marks.get_mut(usize::from(pool))?.get_mut(index as usize).filter(|mark| **mark)?;
                let pool = self.pools.get(usize::from(pool))?;
                if start.checked_add(length)? > pool.region().frame_size() {
                    return None;
                }
                *mark = false;
                // SAFETY: it was free, and is marked no more: nobody else has it, or gets it, and it will not be put back.
                // Its window is within.
                Some(unsafe { pool.redeem(index, start, length, continues) })
            }
            Place::Elsewhere { headroom, capacity, bytes, continues } => {
                let mut frame = Region::new(1, capacity).ok()?.pool(1)?.allocate(headroom as usize)?;
                frame.append(bytes.len())?.copy_from_slice(&bytes);
                frame.set_continues(continues);
                Some(frame)
            }
        }
    }
}

impl Serialize for Frame {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let noted = SCOPE.with_borrow_mut(|scope| scope.as_mut().filter(|s| !s.is_reading).map(|s| s.note(self)));
        noted.ok_or_else(|| S::Error::custom("a frame is written within `writing` only"))?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Frame {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Frame, D::Error> {
        let place = Place::deserialize(deserializer)?;
        let claimed =
            SCOPE.with_borrow_mut(|scope| scope.as_mut().filter(|s| s.is_reading).and_then(|s| s.claim(place)));
        claimed.ok_or_else(|| D::Error::custom("a frame that is not there, or twice"))
    }
}

/// Of frames a device has: taken as they are read, and nobody's until it gives them back.
pub(crate) fn lend(frames: Vec<Frame>) -> u32 {
    frames.into_iter().map(Frame::into_index).count() as u32
}
