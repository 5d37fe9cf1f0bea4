//! Storage areas: those that the options named, by numbers from 0 on, in that order.

use super::guard::{Qanat, enter, put, wanted};
use super::memory::Block;
use crate::status::{Code, Refused};
use qanat::{AreaId, Durability, StorageCommands};

/// What an area is like.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Geometry {
    /// Blocks there are.
    pub blocks: u64,
    /// Bytes in a block, the unit of offsets and lengths: a power of two, at least 512.
    pub block_bytes: u32,
    /// So many bytes, aligned to themselves, are written wholly or not at all when power fails.
    pub atomic_bytes: u32,
    /// Bytes that one request may have at most.
    pub transfer_bytes_max: u32,
    /// Requests that may be under way at once.
    pub depth: u32,
    /// 1: what was written can be lost until a flush.
    pub volatile_cache: u8,
    /// 0.
    pub reserved: [u8; 7],
}

/// Says what an area is like.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qanat_area_geometry(qanat: *mut Qanat, area: u64, geometry: *mut Geometry) -> Code {
    let area = AreaId::from_token(area);
    // SAFETY: the program's promise, as the module says.
    unsafe {
        enter(qanat, |native| {
            wanted(geometry, "geometry: a null pointer")?;
            let found = native.command(|context| context.geometry(area))?;
            let told = Geometry {
                blocks: found.blocks,
                block_bytes: found.block_bytes,
                atomic_bytes: found.atomic_bytes,
                transfer_bytes_max: found.transfer_bytes_max,
                depth: found.depth,
                volatile_cache: found.volatile_cache.into(),
                reserved: [0; 7],
            };
            put(geometry, told);
            Ok(())
        })
    }
}

/// Gives a buffer of an area, to fill and to write without a copy. It may be sealed and sent, too. QANAT_STATUS_FULL: all are in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qanat_area_block(qanat: *mut Qanat, area: u64, block: *mut Block) -> Code {
    let area = AreaId::from_token(area);
    // SAFETY: the program's promise, as the module says.
    unsafe {
        enter(qanat, |native| {
            if block.is_null() {
                return Err(Refused::Argument("block: a null pointer"));
            }
            let taken = native.command(|context| context.area_block(area))?;
            let (memory, data, length) = native.lend_block(taken);
            put(block, Block { memory, data, length });
            Ok(())
        })
    }
}

/// Reads `length` bytes from `offset` on, both of whole blocks. QANAT_EVENT_READ with `token` follows. QANAT_STATUS_FULL: again after an
/// event of this area.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qanat_read(qanat: *mut Qanat, area: u64, offset: u64, length: usize, token: u64) -> Code {
    let area = AreaId::from_token(area);
    // SAFETY: the program's promise, as the module says.
    unsafe { enter(qanat, |native| Ok(native.command(|context| context.read(area, offset, length, token))?)) }
}

/// Writes the first `length` bytes of a block at `offset`, both of whole blocks. QANAT_EVENT_WRITTEN with `token` follows, and lends the block
/// again. `is_durable` 1: it survives a loss of power then; 0: only after a flush. If this is refused with QANAT_STATUS_FULL, the block is given
/// away all the same; with any other status it stays as it was.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qanat_write(
    qanat: *mut Qanat,
    area: u64,
    offset: u64,
    block: u64,
    length: usize,
    is_durable: u8,
    token: u64,
) -> Code {
    let area = AreaId::from_token(area);
    let durability = if is_durable == 0 { Durability::Cached } else { Durability::Durable };
    // SAFETY: the program's promise, as the module says.
    unsafe {
        enter(qanat, |native| {
            let most = native.command(|context| context.geometry(area))?.transfer_bytes_max;
            let block = native.take_block(block, length, most as usize)?;
            Ok(native.command(|context| context.write(area, offset, block, durability, token))?)
        })
    }
}

/// Makes durable all writes that have ended. QANAT_EVENT_FLUSHED with `token` follows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qanat_flush(qanat: *mut Qanat, area: u64, token: u64) -> Code {
    let area = AreaId::from_token(area);
    // SAFETY: the program's promise, as the module says.
    unsafe { enter(qanat, |native| Ok(native.command(|context| context.flush(area, token))?)) }
}

/// Writes `length` zeroes from `offset` on, as many as wished. QANAT_EVENT_ZEROED with `token` follows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qanat_write_zeroes(
    qanat: *mut Qanat,
    area: u64,
    offset: u64,
    length: u64,
    token: u64,
) -> Code {
    let area = AreaId::from_token(area);
    // SAFETY: the program's promise, as the module says.
    unsafe { enter(qanat, |native| Ok(native.command(|context| context.write_zeroes(area, offset, length, token))?)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_what_programs_were_compiled_with() {
        assert_eq!((size_of::<Geometry>(), size_of::<Block>()), (32, 24));
    }
}
