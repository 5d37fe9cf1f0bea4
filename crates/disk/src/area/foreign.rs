//! What else may be on a disk: found by the marks that its makers left.

/// Mark, where it is, what leaves it.
const MARKS: [(&[u8], usize, &str); 18] = [
    (b"\x53\xef", 1_080, "an ext2, ext3 or ext4 file system"),
    (b"XFSB", 0, "an XFS file system"),
    (b"_BHRfS_M", 65_600, "a Btrfs file system"),
    (b"LUKS\xba\xbe", 0, "a LUKS volume"),
    (b"LABELONE", 512, "an LVM physical volume"),
    (b"LABELONE", 0, "an LVM physical volume"),
    (b"SWAPSPACE2", 4_086, "swap space"),
    (b"SWAP-SPACE", 4_086, "swap space"),
    (b"\xfc\x4e\x2b\xa9", 4_096, "a part of a RAID (md)"),
    (b"hsqs", 0, "a SquashFS file system"),
    (b"NTFS    ", 3, "an NTFS file system"),
    (b"EXFAT   ", 3, "an exFAT file system"),
    (b"FAT32   ", 82, "a FAT file system"),
    (b"FAT16   ", 54, "a FAT file system"),
    (b"CD001", 32_769, "an ISO 9660 image"),
    (b"QFI\xfb", 0, "a QEMU image (qcow2)"),
    (b"EFI PART", 512, "a partition table (GPT)"),
    (b"\x55\xaa", 510, "a partition table or boot sector (MBR)"),
];

/// Names what the beginning of a disk shows; `None` if it is all zeroes.
pub(super) fn name(head: &[u8]) -> Option<&'static str> {
    if head.iter().all(|byte| *byte == 0) {
        return None;
    }
    let found = MARKS.iter().find(|(mark, place, _)| head.get(*place..place + mark.len()) == Some(mark));
    Some(found.map_or("something that this program does not know", |(_, _, what)| *what))
}
