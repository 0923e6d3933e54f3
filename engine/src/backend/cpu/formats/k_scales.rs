//! The packed 6-bit scales and minima of Q4_K and Q5_K.

/// Scale and minimum of the `unit`-th 32 elements, from the 12 bytes at `p`: the first four pairs lie in the low
/// six bits of bytes `i` and `i + 4`; the other four have their low nibbles in byte `i + 4` and their upper two
/// bits in the upper two bits of the first eight bytes.
///
/// # Safety
/// `p` is readable for 12 bytes and `unit < 8`.
#[inline(always)]
pub(super) unsafe fn scale_min(p: *const u8, unit: usize) -> (u8, u8) {
    // SAFETY: the caller vouches for 12 bytes; all indices are below 12.
    let at = |i: usize| unsafe { *p.add(i) };
    if unit < 4 {
        (at(unit) & 63, at(unit + 4) & 63)
    } else {
        let low = at(unit + 4);
        (low & 15 | at(unit - 4) >> 6 << 4, low >> 4 | at(unit) >> 6 << 4)
    }
}
