//! Option structs, which grow.
//!
//! Every one begins with its size as the caller knew it, has no padding, and only ever gains fields at the
//! end. A caller's shorter struct is completed with defaults; a longer one is accepted as long as what this
//! library does not know is zero.

use crate::cancel::{self, lean_cancel};
use crate::input::{self, Out};
use crate::status::NONE;
use lean_engine::generate::RequestOptions;
use lean_engine::{
    BackendChoice, CancelToken, Error, KvType, LoadOptions, Precision, Result, SessionOptions,
};
use std::ffi::{c_char, c_void};
use std::mem::{offset_of, size_of};
use std::ptr::{null, null_mut};
use std::time::Duration;

/// The best that can run the model here.
pub const LEAN_BACKEND_AUTO: i32 = 0;
/// CPU threads.
pub const LEAN_BACKEND_CPU: i32 = 1;
/// A GPU.
pub const LEAN_BACKEND_GPU: i32 = 2;

/// Kernels whose results are the same on every machine.
pub const LEAN_LOAD_PORTABLE: u32 = 1;
/// Map the file instead of reading it. The caller promises that nobody shortens it meanwhile: the operating
/// system would kill the process.
pub const LEAN_LOAD_MMAP: u32 = 2;
/// Accept GPU adapters that are software.
pub const LEAN_LOAD_SOFTWARE_GPU: u32 = 4;

/// Keys and values as they were computed.
pub const LEAN_KV_F32: u32 = 0;
/// The upper 24 bits of each; within the same gate as `LEAN_KV_F32`.
pub const LEAN_KV_F24: u32 = 1;
/// Half precision.
pub const LEAN_KV_F16: u32 = 2;
/// Bytes with a scale for each block of 32.
pub const LEAN_KV_Q8_0: u32 = 3;

/// Logits within 1e-3 of float32 arithmetic on the same weights: the default.
pub const LEAN_PRECISION_EXACT: u32 = 0;
/// Faster and less exact, in an exactness class of its own (docs/precision.md).
pub const LEAN_PRECISION_FAST: u32 = 1;

/// After a failure or a cancellation keep what was generated, instead of the session as it was before.
pub const LEAN_GENERATE_KEEP_PARTIAL: u32 = 1;
/// Report the value so far with `LEAN_EVENT_PARTIAL` (streams of JSON types).
pub const LEAN_GENERATE_PARTIALS: u32 = 2;
/// Say how sure the model was of the value (`lean_output_confidence`).
pub const LEAN_GENERATE_CONFIDENCE: u32 = 4;

/// Events of progress through the context.
pub const LEAN_EVENTS_PREFILL: u32 = 1;
/// Events of every token.
pub const LEAN_EVENTS_TOKEN: u32 = 2;
/// Events that carry text.
pub const LEAN_EVENTS_TEXT: u32 = 4;
/// Events of the value so far.
pub const LEAN_EVENTS_PARTIAL: u32 = 8;
/// Events of what a token is chosen from.
pub const LEAN_EVENTS_CANDIDATES: u32 = 16;
/// All events, those of newer libraries included.
pub const LEAN_EVENTS_ALL: u32 = 0xFFFF_FFFF;

/// Called in the calling thread with work done and work in total (bytes while loading, tokens in a context).
/// Returning false cancels. It must not throw, unwind, longjmp, or use a handle of the call it reports on.
pub type lean_progress_fn = Option<unsafe extern "C" fn(user: *mut c_void, done: u64, total: u64) -> bool>;

/// How to load a model.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct lean_load_options {
    /// `sizeof` of this struct.
    pub struct_size: u32,
    /// `LEAN_BACKEND_*`. Default auto.
    pub backend: i32,
    /// CPU threads; 0 (default) is the number of cores that the process may use.
    pub threads: u32,
    /// `LEAN_LOAD_*`. Default 0.
    pub flags: u32,
    /// Part of a GPU adapter's name; NULL (default) takes the best.
    pub adapter: *const c_char,
    /// Its length.
    pub adapter_length: usize,
    /// Progress, or NULL (default).
    pub progress: lean_progress_fn,
    /// Passed to `progress`.
    pub progress_user: *mut c_void,
    /// Cancels the load between tensors; NULL (default) for none.
    pub cancel: *const lean_cancel,
    /// Bytes of state that the model keeps of earlier contexts, so that one that begins alike is not computed
    /// again from its beginning; `LEAN_NONE` (default) is a few hundred MB, 0 turns it off.
    pub prefix_cache_bytes: u64,
    /// `LEAN_KV_*`: how keys and values are stored. Default f32; others on the CPU only.
    pub kv: u32,
    /// `LEAN_PRECISION_*`: how exactly it is computed. Default exact.
    pub precision: u32,
}

/// How to open or restore a session.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct lean_session_options {
    /// `sizeof` of this struct.
    pub struct_size: u32,
    /// Must be 0.
    pub reserved: u32,
    /// Most tokens that the session may hold; `LEAN_NONE` (default) is the model's own length, or the
    /// checkpoint's. Memory is taken as it fills.
    pub context: u64,
}

/// How to run a context.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct lean_prefill_options {
    /// `sizeof` of this struct.
    pub struct_size: u32,
    /// Must be 0.
    pub reserved: u32,
    /// Progress, or NULL (default).
    pub progress: lean_progress_fn,
    /// Passed to `progress`.
    pub progress_user: *mut c_void,
    /// Cancels; the session is then as it was before. NULL (default) for none.
    pub cancel: *const lean_cancel,
}

/// How to generate. The same context, type, options and class of machine give the same bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct lean_generate_options {
    /// `sizeof` of this struct.
    pub struct_size: u32,
    /// `LEAN_GENERATE_*`. Default 0.
    pub flags: u32,
    /// Most tokens to generate; `LEAN_NONE` (default) is what the context still holds.
    pub max_tokens: u64,
    /// 0 (default) takes the likeliest token.
    pub temperature: f32,
    /// Sample among the likeliest that together reach this probability; 1 (default) is off.
    pub top_p: f32,
    /// Drop tokens below this share of the likeliest one's probability; 0 (default) is off.
    pub min_p: f32,
    /// Makes recent tokens less likely; 1 (default) is off.
    pub repetition_penalty: f32,
    /// Tokens that the penalty looks at.
    pub repetition_window: u32,
    /// Sample among this many of the likeliest; 0 (default) is off.
    pub top_k: u32,
    /// Seed of the sampler. Default 0.
    pub seed: u64,
    /// Text ends before any of these strings (text types only); NULL (default) for none.
    pub stop: *const *const c_char,
    /// Their lengths; NULL if all are NUL-terminated.
    pub stop_lengths: *const usize,
    /// Their number.
    pub stop_count: usize,
    /// Cancels; the session is then as it was before. NULL (default) for none.
    pub cancel: *const lean_cancel,
    /// Give up with `LEAN_TIMEOUT` after this many milliseconds; `LEAN_NONE` (default) is never.
    pub timeout_ms: u64,
    /// `LEAN_EVENTS_*` that a stream reports. Default all.
    pub events: u32,
    /// So many of the likeliest tokens are reported before each that is chosen from logits, as `LEAN_EVENT_CANDIDATES`: at
    /// most 64, by default 0.
    pub candidates: u32,
}

/// How to continue a value.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct lean_resume_options {
    /// `sizeof` of this struct.
    pub struct_size: u32,
    /// `LEAN_EVENTS_*` that the stream reports. Default all.
    pub events: u32,
    /// Cancels; the session is then as it was before. NULL (default) for none.
    pub cancel: *const lean_cancel,
}

/// A struct that begins with its size.
///
/// # Safety
/// `repr(C)`, a `u32` size first, no padding, every field valid for any bits.
pub(crate) unsafe trait Sized32: Copy {
    const NAME: &'static str;
    /// Where fields end: the sizes that a caller's struct can have.
    const ENDS: &'static [usize];
    fn defaults() -> Self;
}

/// Names the fields of a struct in order and says where each ends.
macro_rules! sized {
    ($name:ident { $($field:ident),* }) => {
        // SAFETY: numbers and pointers in an order without padding, as the C harness asserts.
        unsafe impl $crate::options::Sized32 for $name {
            const NAME: &'static str = stringify!($name);
            const ENDS: &'static [usize] = &[$(offset_of!($name, $field)),*, size_of::<$name>()];
            fn defaults() -> Self {
                $name::defaults()
            }
        }
    };
}
pub(crate) use sized;

sized!(lean_load_options {
    backend,
    threads,
    flags,
    adapter,
    adapter_length,
    progress,
    progress_user,
    cancel,
    prefix_cache_bytes,
    kv,
    precision
});
sized!(lean_session_options { reserved, context });
sized!(lean_prefill_options { reserved, progress, progress_user, cancel });
sized!(lean_generate_options {
    flags,
    max_tokens,
    temperature,
    top_p,
    min_p,
    repetition_penalty,
    repetition_window,
    top_k,
    seed,
    stop,
    stop_lengths,
    stop_count,
    cancel,
    timeout_ms,
    events,
    candidates
});
sized!(lean_resume_options { events, cancel });

/// More than any struct of any version; bounds what a wrong size makes us read.
const MAX_SIZE: usize = 4096;

/// The size that a caller's struct claims.
///
/// # Safety
/// `ptr` is readable for the size in its first four bytes.
pub(crate) unsafe fn claimed_size<T: Sized32>(ptr: *const T) -> Result<usize> {
    if !ptr.is_aligned() {
        return Err(Error::invalid(T::NAME, "is not aligned for its type"));
    }
    // SAFETY: aligned and readable.
    let size = unsafe { *ptr.cast::<u32>() } as usize;
    if size > MAX_SIZE || (size < size_of::<T>() && !T::ENDS.contains(&size)) {
        return Err(Error::invalid(T::NAME, format!("struct_size is {size}; call {}_init first", T::NAME)));
    }
    Ok(size)
}

/// A caller's options, completed; NULL is all defaults.
///
/// # Safety
/// `ptr` is NULL or readable for the size in its first four bytes.
pub(crate) unsafe fn read<T: Sized32>(ptr: *const T) -> Result<T> {
    let mut options = T::defaults();
    if ptr.is_null() {
        return Ok(options);
    }
    // SAFETY: passed on.
    let size = unsafe { claimed_size(ptr) }?;
    let known = size.min(size_of::<T>());
    // SAFETY: `size` bytes are readable, as the caller says.
    let bytes = unsafe { std::slice::from_raw_parts(ptr.cast::<u8>(), size) };
    if bytes[known..].iter().any(|b| *b != 0) {
        return Err(Error::invalid(
            T::NAME,
            "an option is set that this version of the library does not have",
        ));
    }
    // SAFETY: `known` bytes of plain data, up to the end of a field.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), (&raw mut options).cast::<u8>(), known) };
    Ok(options)
}

/// Writes defaults into a caller's struct of `size` bytes, of an older or a newer version.
///
/// # Safety
/// `ptr` is NULL or writable for `size` bytes.
pub(crate) unsafe fn init<T: Sized32>(ptr: *mut T, size: usize) {
    if ptr.is_null() || !ptr.is_aligned() || !(4..=MAX_SIZE).contains(&size) {
        return;
    }
    let defaults = T::defaults();
    // SAFETY: writable for `size` bytes; of the defaults at most all are read; both are plain data.
    unsafe {
        std::ptr::write_bytes(ptr.cast::<u8>(), 0, size);
        std::ptr::copy_nonoverlapping(
            (&raw const defaults).cast::<u8>(),
            ptr.cast::<u8>(),
            size.min(size_of::<T>()),
        );
        ptr.cast::<u32>().write(size as u32);
    }
}

/// Writes a result into a caller's struct of a checked size, which keeps its size.
pub(crate) fn write<T: Sized32>(out: Out<T>, size: usize, value: T) {
    let ptr = out.into_ptr().cast::<u8>();
    // SAFETY: writable for `size` bytes, as the caller vouched; the first four keep what they are.
    unsafe {
        let rest = (&raw const value).cast::<u8>().add(4);
        std::ptr::copy_nonoverlapping(rest, ptr.add(4), size.min(size_of::<T>()) - 4);
    }
}

/// The same with its checks.
///
/// # Safety
/// `ptr` is NULL or writable for the size in its first four bytes.
pub(crate) unsafe fn fill<T: Sized32>(what: &str, ptr: *mut T, value: T) -> Result<()> {
    // SAFETY: passed on.
    unsafe {
        let out = Out::new(what, ptr)?;
        let size = claimed_size(ptr)?;
        write(out, size, value);
    }
    Ok(())
}

impl lean_load_options {
    fn defaults() -> Self {
        lean_load_options {
            struct_size: size_of::<Self>() as u32,
            backend: LEAN_BACKEND_AUTO,
            threads: 0,
            flags: 0,
            adapter: null(),
            adapter_length: 0,
            progress: None,
            progress_user: null_mut(),
            cancel: null(),
            prefix_cache_bytes: NONE,
            kv: LEAN_KV_F32,
            precision: LEAN_PRECISION_EXACT,
        }
    }

    /// # Safety
    /// The pointers are as the header demands, until the load is over.
    pub(crate) unsafe fn options(&self) -> Result<LoadOptions> {
        let backend = match self.backend {
            LEAN_BACKEND_AUTO => BackendChoice::Auto,
            LEAN_BACKEND_CPU => BackendChoice::Cpu,
            LEAN_BACKEND_GPU => BackendChoice::Gpu,
            other => return Err(Error::invalid("backend", format!("{other} is not one of LEAN_BACKEND_*"))),
        };
        flags(self.flags, LEAN_LOAD_PORTABLE | LEAN_LOAD_MMAP | LEAN_LOAD_SOFTWARE_GPU)?;
        let kv = match self.kv {
            LEAN_KV_F32 => KvType::F32,
            LEAN_KV_F24 => KvType::F24,
            LEAN_KV_F16 => KvType::F16,
            LEAN_KV_Q8_0 => KvType::Q8_0,
            other => return Err(Error::invalid("kv", format!("{other} is not one of LEAN_KV_*"))),
        };
        let precision = match self.precision {
            LEAN_PRECISION_EXACT => Precision::Exact,
            LEAN_PRECISION_FAST => Precision::Fast,
            other => {
                return Err(Error::invalid("precision", format!("{other} is not one of LEAN_PRECISION_*")))
            }
        };
        // SAFETY: passed on.
        let adapter = unsafe { input::text("adapter", self.adapter, self.adapter_length) }?;
        // SAFETY: passed on.
        let cancel = unsafe { cancel::child(self.cancel) }?;
        // SAFETY: passed on.
        let progress = unsafe { Progress::new(self.progress, self.progress_user, &cancel) };
        Ok(LoadOptions {
            backend,
            threads: self.threads as usize,
            portable: self.flags & LEAN_LOAD_PORTABLE != 0,
            kv,
            precision,
            mmap: self.flags & LEAN_LOAD_MMAP != 0,
            adapter: Some(adapter.to_string()).filter(|name| !name.is_empty()),
            allow_software_gpu: self.flags & LEAN_LOAD_SOFTWARE_GPU != 0,
            prefix_cache: Some(self.prefix_cache_bytes).filter(|bytes| *bytes != NONE),
            progress: Some(Box::new(move |done, total| progress.report(done, total))),
            cancel,
        })
    }
}

impl lean_session_options {
    fn defaults() -> Self {
        lean_session_options { struct_size: size_of::<Self>() as u32, reserved: 0, context: NONE }
    }

    pub(crate) fn options(&self) -> Result<SessionOptions> {
        reserved(self.reserved)?;
        Ok(SessionOptions { context: input::number("context", self.context)? })
    }
}

impl lean_prefill_options {
    fn defaults() -> Self {
        lean_prefill_options {
            struct_size: size_of::<Self>() as u32,
            reserved: 0,
            progress: None,
            progress_user: null_mut(),
            cancel: null(),
        }
    }

    /// # Safety
    /// The pointers are as the header demands, until the call is over.
    pub(crate) unsafe fn parts(&self) -> Result<(CancelToken, Progress)> {
        reserved(self.reserved)?;
        // SAFETY: passed on.
        let cancel = unsafe { cancel::child(self.cancel) }?;
        // SAFETY: passed on.
        let progress = unsafe { Progress::new(self.progress, self.progress_user, &cancel) };
        Ok((cancel, progress))
    }
}

impl lean_generate_options {
    fn defaults() -> Self {
        let engine = RequestOptions::default();
        lean_generate_options {
            struct_size: size_of::<Self>() as u32,
            flags: 0,
            max_tokens: NONE,
            temperature: engine.temperature,
            top_p: engine.top_p,
            min_p: engine.min_p,
            repetition_penalty: engine.repetition_penalty,
            repetition_window: engine.repetition_window,
            top_k: engine.top_k,
            seed: engine.seed,
            stop: null(),
            stop_lengths: null(),
            stop_count: 0,
            cancel: null(),
            timeout_ms: NONE,
            events: LEAN_EVENTS_ALL,
            candidates: 0,
        }
    }

    /// # Safety
    /// The pointers are as the header demands.
    pub(crate) unsafe fn options(&self) -> Result<RequestOptions> {
        flags(self.flags, LEAN_GENERATE_KEEP_PARTIAL | LEAN_GENERATE_PARTIALS | LEAN_GENERATE_CONFIDENCE)?;
        Ok(RequestOptions {
            max_tokens: input::number("max_tokens", self.max_tokens)?,
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            repetition_window: self.repetition_window,
            seed: self.seed,
            // SAFETY: passed on.
            stop: unsafe { input::texts("stop", self.stop, self.stop_lengths, self.stop_count) }?,
            keep_partial: self.flags & LEAN_GENERATE_KEEP_PARTIAL != 0,
            partials: self.flags & LEAN_GENERATE_PARTIALS != 0,
            confidence: self.flags & LEAN_GENERATE_CONFIDENCE != 0,
            candidates: self.candidates,
        })
    }

    pub(crate) fn timeout(&self) -> Option<Duration> {
        (self.timeout_ms != NONE).then(|| Duration::from_millis(self.timeout_ms))
    }
}

impl lean_resume_options {
    fn defaults() -> Self {
        lean_resume_options { struct_size: size_of::<Self>() as u32, events: LEAN_EVENTS_ALL, cancel: null() }
    }
}

fn flags(given: u32, known: u32) -> Result<()> {
    match given & !known {
        0 => Ok(()),
        unknown => {
            Err(Error::invalid("flags", format!("{unknown:#x} is unknown to this version of the library")))
        }
    }
}

fn reserved(value: u32) -> Result<()> {
    match value {
        0 => Ok(()),
        _ => Err(Error::invalid("reserved", "must be 0")),
    }
}

/// A progress callback; false from it triggers the call's own flag.
pub(crate) struct Progress {
    callback: lean_progress_fn,
    user: *mut c_void,
    cancel: CancelToken,
}

// SAFETY: the engine asks for `Send`, but reports in the thread that made the call.
unsafe impl Send for Progress {}

impl Progress {
    /// # Safety
    /// `callback` may be called with `user` while this lives.
    unsafe fn new(callback: lean_progress_fn, user: *mut c_void, cancel: &CancelToken) -> Self {
        Progress { callback, user, cancel: cancel.clone() }
    }

    pub fn report(&self, done: u64, total: u64) {
        if let Some(callback) = self.callback {
            // SAFETY: as `new` was promised.
            if !unsafe { callback(self.user, done, total) } {
                self.cancel.cancel();
            }
        }
    }
}

/// Fills in defaults. `size` is `sizeof *options`, so that an older program and a newer library agree.
#[no_mangle]
pub unsafe extern "C" fn lean_load_options_init(options: *mut lean_load_options, size: usize) {
    // SAFETY: the header's rules.
    unsafe { init(options, size) }
}

/// Fills in defaults. `size` is `sizeof *options`.
#[no_mangle]
pub unsafe extern "C" fn lean_session_options_init(options: *mut lean_session_options, size: usize) {
    // SAFETY: the header's rules.
    unsafe { init(options, size) }
}

/// Fills in defaults. `size` is `sizeof *options`.
#[no_mangle]
pub unsafe extern "C" fn lean_prefill_options_init(options: *mut lean_prefill_options, size: usize) {
    // SAFETY: the header's rules.
    unsafe { init(options, size) }
}

/// Fills in defaults. `size` is `sizeof *options`.
#[no_mangle]
pub unsafe extern "C" fn lean_generate_options_init(options: *mut lean_generate_options, size: usize) {
    // SAFETY: the header's rules.
    unsafe { init(options, size) }
}

/// Fills in defaults. `size` is `sizeof *options`.
#[no_mangle]
pub unsafe extern "C" fn lean_resume_options_init(options: *mut lean_resume_options, size: usize) {
    // SAFETY: the header's rules.
    unsafe { init(options, size) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    struct Newer {
        known: lean_session_options,
        added: u64,
    }

    fn read_from(known: lean_session_options, added: u64) -> Result<lean_session_options> {
        let newer = Newer { known, added };
        // SAFETY: the claimed sizes are within the struct, or refused.
        unsafe { read((&raw const newer).cast()) }
    }

    #[test]
    fn older_and_newer_structs_are_understood() {
        let mut o = lean_session_options::defaults();
        o.context = 77;
        assert_eq!(read_from(o, 0).unwrap().context, 77);
        o.struct_size = 24; // newer, and what is new is not used
        assert_eq!(read_from(o, 0).unwrap().context, 77);
        assert!(read_from(o, 1).is_err(), "a newer option was ignored");
        o.struct_size = 8; // older: before `context` was added
        assert_eq!(read_from(o, 0).unwrap().context, NONE);
        for size in [0, 1, 5, 12, 15, 4097, u32::MAX] {
            o.struct_size = size;
            assert!(read_from(o, 0).is_err(), "{size}");
        }
    }

    #[test]
    fn defaults_never_exceed_the_callers_struct() {
        let mut newer = Newer { known: lean_session_options::defaults(), added: 5 };
        // SAFETY: the sizes are within the struct.
        unsafe {
            init((&raw mut newer).cast::<lean_session_options>(), 8);
            assert_eq!((newer.known.struct_size, newer.added), (8, 5));
            init((&raw mut newer).cast::<lean_session_options>(), 24);
            assert_eq!((newer.known.struct_size, newer.known.context, newer.added), (24, NONE, 0));
        }
    }

    #[test]
    fn structs_have_no_padding() {
        fn check<T: Sized32>(widths: &[usize]) {
            let mut at = 4;
            for (end, width) in T::ENDS.iter().zip(widths) {
                assert_eq!(*end, at, "{}", T::NAME);
                at += width;
            }
            assert_eq!(size_of::<T>(), at, "{}", T::NAME);
            assert_eq!(T::ENDS.len(), widths.len() + 1);
        }
        let p = size_of::<usize>();
        check::<lean_load_options>(&[4, 4, 4, p, p, p, p, p, 8, 4, 4]);
        check::<lean_session_options>(&[4, 8]);
        check::<lean_prefill_options>(&[4, p, p, p]);
        check::<lean_generate_options>(&[4, 8, 4, 4, 4, 4, 4, 4, 8, p, p, p, p, 8, 4, 4]);
        check::<lean_resume_options>(&[4, p]);
    }
}
