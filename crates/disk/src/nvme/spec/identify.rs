//! Identify data: a page each of the controller, of a namespace, and of the active namespaces.

use super::events::event;
use super::registers::PAGE_BYTES;

/// Bytes of Identify data.
pub const IDENTIFY_BYTES: usize = 4_096;

/// A page of Identify data.
pub type IdentifyPage = [u8; IDENTIFY_BYTES];

/// What is to be identified: the low byte of `cdw10`.
pub mod cns {
    /// A namespace.
    pub const NAMESPACE: u8 = 0x00;
    /// The controller.
    pub const CONTROLLER: u8 = 0x01;
    /// The active namespaces above the command's.
    pub const ACTIVE_NAMESPACES: u8 = 0x02;
}

fn get<const COUNT: usize>(page: &IdentifyPage, place: usize) -> [u8; COUNT] {
    page.get(place..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; COUNT])
}

fn put(page: &mut IdentifyPage, place: usize, bytes: &[u8]) {
    if let Some(target) = page.get_mut(place..place + bytes.len()) {
        target.copy_from_slice(bytes);
    }
}

fn text(page: &IdentifyPage, place: usize, length: usize) -> String {
    let bytes = page.get(place..place + length).unwrap_or_default();
    let printable = bytes.iter().map(|byte| if (0x20..0x7f).contains(byte) { char::from(*byte) } else { '?' });
    printable.collect::<String>().trim().to_owned()
}

/// Identify Controller, as far as it is used.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct IdentifyController {
    /// Serial number (SN), at most 20 characters.
    pub serial: String,
    /// Model (MN), at most 40 characters.
    pub model: String,
    /// Firmware revision (FR), at most 8 characters.
    pub firmware: String,
    /// Largest transfer (MDTS): pages, as a power of two; 0 is no limit.
    pub transfer_pages_power: u8,
    /// Controller identifier (CNTLID).
    pub identifier: u16,
    /// Version, as in VS.
    pub version: u32,
    /// Whether it says that a namespace has changed (OAES bit 8).
    pub namespace_notices: bool,
    /// Whether it has Doorbell Buffer Config (OACS bit 8).
    pub doorbell_buffers: bool,
    /// Asynchronous event requests that may be outstanding (AERL, which counts from 0, and one).
    pub events_max: u16,
    /// Namespaces there may be (NN).
    pub namespaces: u32,
    /// Whether it has Write Zeroes (ONCS bit 3).
    pub write_zeroes: bool,
    /// Whether it has a volatile write cache (VWC bit 0).
    pub volatile_cache: bool,
    /// Blocks written wholly or not at all when power fails (AWUPF, which counts from 0, and one).
    pub atomic_blocks: u32,
}

impl IdentifyController {
    /// From the page.
    pub fn from_page(page: &IdentifyPage) -> IdentifyController {
        let [transfer_pages_power] = get(page, 77);
        let [events] = get(page, 259);
        let [cache] = get(page, 525);
        IdentifyController {
            serial: text(page, 4, 20),
            model: text(page, 24, 40),
            firmware: text(page, 64, 8),
            transfer_pages_power,
            identifier: u16::from_le_bytes(get(page, 78)),
            version: u32::from_le_bytes(get(page, 80)),
            namespace_notices: u32::from_le_bytes(get(page, 92)) & event::NAMESPACE_NOTICES != 0,
            doorbell_buffers: u16::from_le_bytes(get(page, 256)) >> 8 & 1 != 0,
            events_max: u16::from(events) + 1,
            namespaces: u32::from_le_bytes(get(page, 516)),
            write_zeroes: u16::from_le_bytes(get(page, 520)) >> 3 & 1 != 0,
            volatile_cache: cache & 1 != 0,
            atomic_blocks: u32::from(u16::from_le_bytes(get(page, 528))) + 1,
        }
    }

    /// As the page. Flush does not take the namespace of all ones (VWC bits 2:1 = 2).
    pub fn to_page(&self) -> IdentifyPage {
        let mut page = [0; IDENTIFY_BYTES];
        for (place, length, value) in [(4, 20, &self.serial), (24, 40, &self.model), (64, 8, &self.firmware)] {
            let mut padded = [b' '; 40];
            padded.iter_mut().zip(value.bytes()).for_each(|(target, byte)| *target = byte);
            put(&mut page, place, padded.get(..length).unwrap_or_default());
        }
        put(&mut page, 77, &[self.transfer_pages_power]);
        put(&mut page, 78, &self.identifier.to_le_bytes());
        put(&mut page, 80, &self.version.to_le_bytes());
        let notices = if self.namespace_notices { event::NAMESPACE_NOTICES } else { 0 };
        put(&mut page, 92, &notices.to_le_bytes());
        put(&mut page, 256, &(u16::from(self.doorbell_buffers) << 8).to_le_bytes());
        put(&mut page, 259, &[self.events_max.saturating_sub(1) as u8]);
        // Entries of 64 and 16 bytes, at least and at most.
        put(&mut page, 512, &[0x66, 0x44]);
        put(&mut page, 516, &self.namespaces.to_le_bytes());
        put(&mut page, 520, &(u16::from(self.write_zeroes) << 3).to_le_bytes());
        put(&mut page, 525, &[u8::from(self.volatile_cache) | 2 << 1]);
        put(&mut page, 528, &(self.atomic_blocks.saturating_sub(1) as u16).to_le_bytes());
        page
    }

    /// Bytes one command may transfer; `None`: no limit.
    pub fn transfer_bytes_max(&self) -> Option<u64> {
        match self.transfer_pages_power {
            0 => None,
            power => Some(PAGE_BYTES.checked_shl(u32::from(power).min(32)).unwrap_or(u64::MAX)),
        }
    }
}

/// Identify Namespace, as far as it is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IdentifyNamespace {
    /// Blocks (NSZE). 0: there is no such namespace.
    pub blocks: u64,
    /// Bytes in a block, as a power of two (LBADS of the format in use).
    pub block_power: u8,
    /// Bytes of metadata with each block (MS of the format in use).
    pub metadata_bytes: u16,
    /// Blocks written wholly or not at all when power fails (NAWUPF, if NSFEAT says that it is there).
    pub atomic_blocks: Option<u32>,
    /// Boundary that such a write must not cross, in blocks (NABSPF); 0: none.
    pub atomic_boundary: u32,
    /// Where the first boundary is, in blocks (NABO).
    pub atomic_offset: u16,
    /// Whether it may only be read (NSATTR bit 0).
    pub read_only: bool,
}

impl IdentifyNamespace {
    /// From the page.
    pub fn from_page(page: &IdentifyPage) -> IdentifyNamespace {
        let [features, _, format] = get(page, 24);
        let format = usize::from(format & 0xf | format >> 1 & 0x30);
        let [metadata_low, metadata_high, block_power, _] = get(page, 128 + 4 * format);
        let [attributes] = get(page, 99);
        let boundary = u16::from_le_bytes(get(page, 44));
        IdentifyNamespace {
            blocks: u64::from_le_bytes(get(page, 0)),
            block_power,
            metadata_bytes: u16::from_le_bytes([metadata_low, metadata_high]),
            atomic_blocks: (features & 2 != 0).then(|| u32::from(u16::from_le_bytes(get(page, 36))) + 1),
            atomic_boundary: if boundary == 0 { 0 } else { u32::from(boundary) + 1 },
            atomic_offset: u16::from_le_bytes(get(page, 42)),
            read_only: attributes & 1 != 0,
        }
    }

    /// As the page, with one format.
    pub fn to_page(&self) -> IdentifyPage {
        let mut page = [0; IDENTIFY_BYTES];
        for place in [0, 8, 16] {
            put(&mut page, place, &self.blocks.to_le_bytes());
        }
        if let Some(blocks) = self.atomic_blocks {
            put(&mut page, 24, &[2]);
            put(&mut page, 36, &(blocks.saturating_sub(1) as u16).to_le_bytes());
        }
        put(&mut page, 42, &self.atomic_offset.to_le_bytes());
        put(&mut page, 44, &(self.atomic_boundary.saturating_sub(1) as u16).to_le_bytes());
        put(&mut page, 99, &[u8::from(self.read_only)]);
        put(&mut page, 128, &self.metadata_bytes.to_le_bytes());
        put(&mut page, 130, &[self.block_power]);
        page
    }
}

/// A list of active namespaces.
#[derive(Clone, Copy, Debug)]
pub struct ActiveNamespaces;

impl ActiveNamespaces {
    /// The namespaces in a page, in rising order, up to the first 0.
    pub fn in_page(page: &IdentifyPage) -> impl Iterator<Item = u32> + '_ {
        let identifiers = page.chunks_exact(4).filter_map(|bytes| bytes.first_chunk().copied().map(u32::from_le_bytes));
        identifiers.take_while(|identifier| *identifier != 0)
    }

    /// A page of as many as fit.
    pub fn to_page(namespaces: impl Iterator<Item = u32>) -> IdentifyPage {
        let mut page = [0; IDENTIFY_BYTES];
        for (target, namespace) in page.chunks_exact_mut(4).zip(namespaces) {
            target.copy_from_slice(&namespace.to_le_bytes());
        }
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_is_identified() {
        let controller = IdentifyController {
            serial: "S1".to_owned(),
            model: "Qanat".to_owned(),
            firmware: "0.1".to_owned(),
            transfer_pages_power: 5,
            identifier: 3,
            version: 0x0001_0400,
            namespace_notices: true,
            doorbell_buffers: true,
            events_max: 4,
            namespaces: 2,
            write_zeroes: true,
            volatile_cache: true,
            atomic_blocks: 8,
        };
        let page = controller.to_page();
        assert_eq!((&page[4..8], &page[92..96]), (&b"S1  "[..], &[0, 1, 0, 0][..]));
        assert_eq!((page[77], page[78], page[257], page[259], page[512], page[513]), (5, 3, 1, 3, 0x66, 0x44));
        assert_eq!((page[516], page[520], page[525], page[528]), (2, 8, 5, 7));
        assert_eq!(IdentifyController::from_page(&page), controller);
        assert_eq!(controller.transfer_bytes_max(), Some(131_072));
        let strange = IdentifyController::from_page(&[0xff; IDENTIFY_BYTES]);
        assert_eq!(strange.transfer_bytes_max(), Some(1 << 44), "a large power is only large");
        assert_eq!(IdentifyController::from_page(&[0; IDENTIFY_BYTES]).transfer_bytes_max(), None);
    }

    #[test]
    fn a_namespace_is_identified() {
        let namespace = IdentifyNamespace {
            blocks: 0x1_0000_0001,
            block_power: 12,
            atomic_blocks: Some(4),
            atomic_boundary: 16,
            read_only: true,
            ..IdentifyNamespace::default()
        };
        let mut page = namespace.to_page();
        assert_eq!((page[0], page[4], page[24], page[36], page[44], page[99], page[130]), (1, 1, 2, 3, 15, 1, 12));
        assert_eq!(IdentifyNamespace::from_page(&page), namespace);
        // The third format is in use.
        page[26] = 2;
        page[136..140].copy_from_slice(&[8, 0, 9, 0]);
        let namespace = IdentifyNamespace::from_page(&page);
        assert_eq!((namespace.block_power, namespace.metadata_bytes), (9, 8));
        IdentifyNamespace::from_page(&[0xff; IDENTIFY_BYTES]);
    }

    #[test]
    fn namespaces_are_listed() {
        let page = ActiveNamespaces::to_page([1, 7].into_iter());
        assert_eq!(page[..12], [1, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(ActiveNamespaces::in_page(&page).collect::<Vec<_>>(), [1, 7]);
        let full = ActiveNamespaces::to_page(1..);
        assert_eq!(ActiveNamespaces::in_page(&full).count(), 1_024);
    }
}
