//! Damaged model files give an error or a model, never a panic, and never more memory than the file justifies.

use lean_engine::gguf::Gguf;
use lean_engine::{model, Error, Result};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Counts the bytes that each thread has in use, and their highest number.
struct Counting;

thread_local! {
    static USED: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    let used = USED.get() + bytes;
    USED.set(used);
    PEAK.set(PEAK.get().max(used));
}

// SAFETY: every call is passed on to the system's allocator with its own arguments; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promises about `layout` are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: `at` came from `System.alloc` with this layout, as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Values that lengths, counts, offsets and types are overwritten with.
const FIELDS: [u64; 12] =
    [0, 1, 7, 31, 255, 1 << 16, 1 << 31, u32::MAX as u64, 1 << 40, 1 << 62, i64::MAX as u64, u64::MAX];

/// xorshift64*: the same mutations in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

/// One to three changes; most of them in the header, whose end is `header`.
fn mutate(bytes: &mut Vec<u8>, header: usize, r: &mut Random) -> String {
    let mut done = String::new();
    for _ in 0..1 + r.below(3) {
        let at = r.below(header.min(bytes.len().max(1)));
        let n = 1 + r.below(64);
        match r.below(6) {
            0 => bytes.truncate(r.below(bytes.len().max(1))),
            1 => {
                bytes.drain(at.min(bytes.len())..(at + n).min(bytes.len()));
            }
            2 => drop(bytes.splice(at.min(bytes.len())..at.min(bytes.len()), vec![r.next() as u8; n])),
            3 | 4 => {
                let value = FIELDS[r.below(FIELDS.len())].to_le_bytes();
                let width = [4, 8][r.below(2)];
                bytes.iter_mut().skip(at).zip(&value[..width]).for_each(|(b, v)| *b = *v);
            }
            _ => bytes.iter_mut().skip(at).take(1).for_each(|b| *b ^= 1 << r.below(8)),
        }
        done += &format!("near {at}; ");
    }
    done
}

/// Everything that happens to a file before its weights are used.
fn open(bytes: &[u8], through_reader: bool) -> Result<()> {
    let gguf = match through_reader {
        true => Gguf::from_reader(Box::new(std::io::Cursor::new(bytes.to_vec())))?,
        false => Gguf::from_bytes(bytes.into())?,
    };
    gguf.fingerprint()?;
    model::ModelInfo::read(&gguf)?;
    let plan = model::plan(&gguf)?;
    for t in &plan.tensors {
        let read = gguf.read(&t.name)?.len();
        assert_eq!(Some(read), t.dtype.bytes_of(t.rows * t.cols), "{}", t.name);
    }
    Ok(())
}

#[test]
fn damaged_files_are_refused_or_read() {
    let path = |name| format!("{}/../tests/fixtures/models/{name}.gguf", env!("CARGO_MANIFEST_DIR"));
    let mut r = Random(0x6c65_616e);
    let (mut refused, mut accepted) = (0, 0);
    for name in ["llama-hd64-tied.s1.q4_1", "lfm2-hd64-tied.s1.q4_0"] {
        let original = std::fs::read(path(name)).unwrap();
        assert_eq!(open(&original, false), Ok(()), "{name}");
        let header = 30_000;
        for i in 0..400 {
            let mut bytes = original.clone();
            // The tables of numbers at both ends of the header are where a change hurts; the long list of
            // tokens in between would take most of the hits.
            let reach = [200, 1500, header][r.below(3)];
            let what = mutate(&mut bytes, reach, &mut r);
            let before = USED.get();
            PEAK.set(before);
            let result = open(&bytes, i % 2 == 0);
            let peak = (PEAK.get() - before) as usize;
            assert!(
                peak <= 4 * bytes.len() + (1 << 20),
                "{name} {i} ({what}): {peak} bytes for {}",
                bytes.len()
            );
            match result {
                Ok(()) => accepted += 1,
                Err(Error::BadModel { .. } | Error::UnsupportedModel { .. }) => refused += 1,
                Err(other) => panic!("{name} {i} ({what}): {other:?}"),
            }
        }
    }
    assert!(
        refused > 400 && accepted > 0,
        "mutations that test nothing: {refused} refused, {accepted} accepted"
    );
}

/// The end of the header has the tensor table: every byte of it, changed in turn.
#[test]
fn every_byte_of_the_tensor_table_matters_or_is_harmless() {
    let path =
        format!("{}/../tests/fixtures/models/llama-hd64-tied.s1.q4_1.gguf", env!("CARGO_MANIFEST_DIR"));
    let original = std::fs::read(path).unwrap();
    let name = b"token_embd.weight";
    let table = original.windows(name.len()).position(|w| w == name).unwrap() - 8;
    let data =
        Gguf::from_bytes(original.as_slice().into()).unwrap().tensor("token_embd.weight").unwrap().offset;
    let mut bytes = original;
    for at in table..data as usize {
        let kept = bytes[at];
        // Every bit of one byte, the lowest bit of the next: far and near misses.
        bytes[at] ^= [0xff, 1][at % 2];
        if let Err(error) = open(&bytes, false) {
            let typed = matches!(error, Error::BadModel { .. } | Error::UnsupportedModel { .. });
            assert!(typed, "byte {at}: {error:?}");
        }
        bytes[at] = kept;
    }
}
