//! Archives as the kernel unpacks them (cpio, "newc").

use std::io::{self, Write};

/// Kinds of files, with their permissions.
const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const CHARACTER_DEVICE: u32 = 0o020_600;

/// An archive being written.
pub struct Archive<W: Write> {
    to: W,
    count: u32,
}

impl<W: Write> Archive<W> {
    pub fn new(to: W) -> Archive<W> {
        Archive { to, count: 0 }
    }

    fn pad(&mut self, written: usize) -> io::Result<()> {
        self.to.write_all(&[0; 3][..written.next_multiple_of(4) - written])
    }

    fn entry(&mut self, name: &str, mode: u32, device: (u32, u32), data: &[u8]) -> io::Result<()> {
        self.count += 1;
        let fields =
            [self.count, mode, 0, 0, 1, 0, data.len() as u32, 0, 0, device.0, device.1, name.len() as u32 + 1, 0];
        let mut head = String::from("070701");
        fields.iter().for_each(|field| head.push_str(&format!("{field:08X}")));
        head.push_str(name);
        head.push('\0');
        self.to.write_all(head.as_bytes())?;
        self.pad(head.len())?;
        self.to.write_all(data)?;
        self.pad(data.len())
    }

    /// A directory; those above it come first.
    pub fn directory(&mut self, name: &str) -> io::Result<()> {
        self.entry(name, DIRECTORY, (0, 0), &[])
    }

    /// A file that may be run.
    pub fn file(&mut self, name: &str, data: &[u8]) -> io::Result<()> {
        self.entry(name, PROGRAM, (0, 0), data)
    }

    /// A character device.
    pub fn device(&mut self, name: &str, device: (u32, u32)) -> io::Result<()> {
        self.entry(name, CHARACTER_DEVICE, device, &[])
    }

    pub fn finish(mut self) -> io::Result<()> {
        self.entry("TRAILER!!!", 0, (0, 0), &[])?;
        self.to.flush()
    }
}

#[test]
fn archives_are_as_the_kernel_reads_them() {
    let mut bytes = Vec::new();
    let mut archive = Archive::new(&mut bytes);
    archive.directory("dev").expect("memory");
    archive.device("dev/console", (5, 1)).expect("memory");
    archive.file("init", b"hello").expect("memory");
    archive.finish().expect("memory");
    assert!(bytes.len().is_multiple_of(4));
    let text = String::from_utf8_lossy(&bytes);
    assert!(text.starts_with("07070100000001000041ED"), "{text}");
    let init = &text[text.rfind("init").expect("there") - 110..];
    // Mode, then the length of the data, then that of the name with its end.
    assert_eq!((&init[14..22], &init[54..62], &init[94..102]), ("000081ED", "00000005", "00000005"));
    assert!(init[116..].starts_with("hello\0\0\x00070701"), "{init}");
}
