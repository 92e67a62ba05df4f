//! Memory: having at hand what is about to be needed.

use std::ffi::{c_int, c_void};
use std::ptr;

/// Maps all of the program's and its libraries' code and constants into this process. A forked process
/// begins with none of it, and fetches it page by page as it first comes by, each at a few microseconds
/// and just when there is something to do.
///
/// Not an error where the kernel, before 5.14, cannot.
pub fn map_program() {
    // SAFETY: the callback fits, and nothing is passed through.
    unsafe { libc::dl_iterate_phdr(Some(map_object), ptr::null_mut()) };
}

unsafe extern "C" fn map_object(
    object: *mut libc::dl_phdr_info,
    _size: usize,
    _data: *mut c_void,
) -> c_int {
    // SAFETY: the loader's own description, which stands for as long as the object is loaded.
    let (base, segments) = unsafe {
        let object = &*object;
        let count = usize::from(object.dlpi_phnum);
        let segments = std::slice::from_raw_parts(object.dlpi_phdr, count);
        (object.dlpi_addr, segments)
    };
    for segment in segments {
        if segment.p_type != libc::PT_LOAD || segment.p_flags & libc::PF_W != 0 {
            continue;
        }
        let start = base.wrapping_add(segment.p_vaddr);
        let within = start % segment.p_align.max(1);
        let (Ok(first), Ok(length)) = (
            usize::try_from(start - within),
            usize::try_from(segment.p_memsz + within),
        ) else {
            continue;
        };
        let first = ptr::with_exposed_provenance_mut(first);
        // SAFETY: these pages are mapped, and this only looks at them.
        unsafe { libc::madvise(first, length, libc::MADV_POPULATE_READ) };
    }
    0
}
