//! Room for answers in huge pages.
//!
//! The first touch of each page of 4 KiB goes through the kernel, which for a long column's answers can cost more than
//! computing them. Where the system provides huge pages on request (Linux with transparent huge pages set to
//! `madvise`), there are fewer pages to touch; NumPy requests them for its arrays as well.

/// Bytes from which on requesting huge pages pays off.
#[cfg(all(target_os = "linux", not(miri)))]
const LARGE: usize = 4 << 20;

/// A vector with room for `len` values, in huge pages if that is large.
pub fn room<T>(len: usize) -> Vec<T> {
    let mut out = Vec::new();
    reserve(&mut out, len);
    out
}

/// Reserves room for exactly `additional` more values, in huge pages if that is large.
pub(super) fn reserve<T>(out: &mut Vec<T>, additional: usize) {
    if out.capacity() - out.len() >= additional {
        return;
    }
    if out.is_empty() {
        // To grow would copy memory that was never written.
        *out = Vec::new();
    }
    out.reserve_exact(additional);
    #[cfg(all(target_os = "linux", not(miri)))]
    if size_of_val(out.spare_capacity_mut()) >= LARGE {
        advise(out.spare_capacity_mut());
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
fn advise<T>(room: &mut [std::mem::MaybeUninit<T>]) {
    const PAGE: usize = 4096;
    let start = room.as_mut_ptr().addr().next_multiple_of(PAGE);
    let end = room.as_mut_ptr_range().end.addr();
    // SAFETY: the range lies within memory that this process owns, begins at a page, and the advice changes neither what
    // it holds nor its protection. A refusal (an older kernel, other page sizes) leaves everything as it was.
    unsafe { libc::madvise(start as *mut libc::c_void, end.saturating_sub(start), libc::MADV_HUGEPAGE) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn much_room_and_little() {
        // Miri takes a step for each value.
        let much = if cfg!(miri) { 1 << 8 } else { 1 << 20 };
        for (have, want) in [(0, 0), (0, 10), (3, 2 * much), (3 * much as u64, 1)] {
            let mut values: Vec<u64> = (0..have).collect();
            reserve(&mut values, want);
            assert!(values.capacity() >= have as usize + want);
            values.extend(0..want as u64);
            assert!(values.iter().copied().eq((0..have).chain(0..want as u64)));
        }
    }
}
