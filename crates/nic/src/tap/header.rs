//! `struct virtio_net_hdr`, as a TAP device has it before each packet (VIRTIO 1.2 section 5.1.6, in the machine's byte order).

use crate::checksum::ChecksumOffload;

/// Bytes of it.
pub(super) const LENGTH: usize = 10;

const NEEDS_CHECKSUM: u8 = 1;

/// How a packet is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Segmentation {
    /// TCP over IPv4.
    TcpV4 = 1,
    /// TCP over IPv6.
    TcpV6 = 4,
}

/// What is said of a packet to be sent.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Header {
    /// The checksum that is still to be filled in.
    pub(super) checksum: Option<ChecksumOffload>,
    /// How it is cut: into segments of so many bytes of payload, each behind the first so many bytes of the packet.
    pub(super) segmentation: Option<(Segmentation, u16, u16)>,
}

impl Header {
    /// As the device reads it.
    pub(super) fn bytes(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        let mut put = |at: usize, value: u16| bytes[at..at + 2].copy_from_slice(&value.to_ne_bytes());
        if let Some((_, size, header_length)) = self.segmentation {
            put(2, header_length);
            put(4, size);
        }
        if let Some(offload) = self.checksum {
            put(6, offload.start);
            put(8, offload.offset);
            bytes[0] = NEEDS_CHECKSUM;
        }
        bytes[1] = self.segmentation.map_or(0, |(kind, ..)| kind as u8);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_the_kernels() {
        assert_eq!(Header::default().bytes(), [0; LENGTH]);
        let header = Header {
            checksum: Some(ChecksumOffload { start: 34, offset: 16 }),
            segmentation: Some((Segmentation::TcpV6, 1_428, 86)),
        };
        let words = [86u16, 1_428, 34, 16].map(u16::to_ne_bytes).concat();
        assert_eq!(header.bytes(), [[1, 4].as_slice(), &words].concat()[..]);
    }
}
