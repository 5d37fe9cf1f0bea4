//! Which library this is: the identifier that the linker made of its contents. Two libraries with the same one know the same of the world's
//! structures.

use libc::{c_int, c_void, dl_phdr_info, size_t};
use std::fmt::Write;
use std::sync::OnceLock;

const BUILD_ID: u32 = 3;

/// In hexadecimal digits; empty: it is not known, so no two are the same.
pub(crate) fn identity() -> &'static str {
    static IDENTITY: OnceLock<String> = OnceLock::new();
    IDENTITY.get_or_init(|| {
        let mut found = String::new();
        // SAFETY: `look` is given what it expects.
        unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut found).cast()) };
        found
    })
}

/// Looks at one of the loaded objects: is it the one this function is in?
///
/// # Safety
/// `found` is a `String`; the rest is the loader's.
unsafe extern "C" fn look(information: *mut dl_phdr_info, _: size_t, found: *mut c_void) -> c_int {
    // SAFETY: `found` is a `String`; the rest is the loader's: this function's condition.
    let (information, found) = unsafe { (&*information, &mut *found.cast::<String>()) };
    let base = information.dlpi_addr as usize;
    // SAFETY: the loader has so many.
    let headers = unsafe { std::slice::from_raw_parts(information.dlpi_phdr, usize::from(information.dlpi_phnum)) };
    let own = (look as *const c_void).addr();
    let holds = |header: &libc::Elf64_Phdr| {
        let start = base.wrapping_add(header.p_vaddr as usize);
        header.p_type == libc::PT_LOAD && own.wrapping_sub(start) < header.p_memsz as usize
    };
    if !headers.iter().any(holds) {
        return 0;
    }
    for header in headers.iter().filter(|header| header.p_type == libc::PT_NOTE) {
        let at = std::ptr::with_exposed_provenance::<u8>(base.wrapping_add(header.p_vaddr as usize));
        // SAFETY: the library is loaded there, in this length.
        let notes = unsafe { std::slice::from_raw_parts(at, header.p_memsz as usize) };
        if let Some(id) = build_id(notes) {
            id.iter().for_each(|byte| _ = write!(found, "{byte:02x}"));
        }
    }
    1
}

/// The build's identity among notes: lengths of name and contents, a kind, then both, each padded to four bytes.
fn build_id(mut notes: &[u8]) -> Option<&[u8]> {
    loop {
        let word = |at: usize| Some(u32::from_ne_bytes(notes.get(at..at + 4)?.try_into().ok()?));
        let (name, length, kind) = (word(0)? as usize, word(4)? as usize, word(8)?);
        let start = 12 + name.next_multiple_of(4);
        if kind == BUILD_ID && notes.get(12..12 + name) == Some(b"GNU\0") {
            return notes.get(start..start.checked_add(length)?);
        }
        notes = notes.get(start.checked_add(length.next_multiple_of(4))?..)?;
    }
}
