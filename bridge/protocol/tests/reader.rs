//! The frame reader on arbitrary cuts and arbitrary bytes. Randomness is seeded: a failure repeats.

use lean_protocol::messages as m;
use lean_protocol::{Flags, Frame, FrameReader, HEADER_BYTES};

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
    fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.next() as u8).collect()
    }
}

fn some_frames(rng: &mut Rng) -> Vec<Frame> {
    (0..rng.below(8))
        .map(|i| {
            let (head, tail) = (rng.below(40), rng.below(3000));
            let (head, tail) = (rng.bytes(head), rng.bytes(tail));
            Frame::from_parts(i as u32, rng.next() as u16, Flags(rng.next() as u16), &head, &tail)
        })
        .collect()
}

fn drain(reader: &mut FrameReader, out: &mut Vec<Frame>) -> Result<(), lean_protocol::WireError> {
    while let Some(f) = reader.next_frame()? {
        out.push(f);
    }
    Ok(())
}

#[test]
fn cuts_do_not_matter() {
    for seed in 0..300 {
        let mut rng = Rng(seed);
        let frames = some_frames(&mut rng);
        let mut bytes = lean_protocol::MAGIC.to_vec();
        frames.iter().for_each(|f| f.encode_into(&mut bytes));
        let mut reader = FrameReader::with_magic(4096);
        let (mut got, mut rest) = (Vec::new(), &bytes[..]);
        while !rest.is_empty() {
            let (piece, next) = rest.split_at((1 + rng.below(700)).min(rest.len()));
            reader.push(piece);
            drain(&mut reader, &mut got).unwrap();
            rest = next;
        }
        reader.finish().unwrap();
        assert_eq!(got, frames, "seed {seed}");
    }
}

#[test]
fn any_bytes_give_frames_or_an_error_in_bounded_memory() {
    for seed in 0..2000 {
        let mut rng = Rng(seed);
        let mut reader = if seed % 4 == 0 { FrameReader::with_magic(4096) } else { FrameReader::new(4096) };
        let mut got = Vec::new();
        for _ in 0..20 {
            let n = rng.below(600);
            let mut piece = rng.bytes(n);
            if seed % 3 == 0 {
                // Small numbers are plausible lengths: they reach past the header checks.
                piece.iter_mut().for_each(|b| *b = if *b < 200 { 0 } else { *b & 7 });
            }
            reader.push(&piece);
            let failed = drain(&mut reader, &mut got).is_err();
            assert!(reader.buffered() < HEADER_BYTES + 4096, "seed {seed}: {} bytes held", reader.buffered());
            if failed {
                assert!(reader.next_frame().is_err(), "an error is final");
                break;
            }
        }
        for f in &got {
            let _ = m::decode_any(f.kind, f.head(), 0);
            let _ = lean_protocol::json::parse(f.tail());
        }
    }
}

#[test]
fn any_head_decodes_or_is_refused() {
    for seed in 0..20_000 {
        let mut rng = Rng(seed);
        let spec = m::ALL[rng.below(m::ALL.len())];
        let n = rng.below(24);
        let mut head = rng.bytes(n);
        if seed % 2 == 0 {
            head.iter_mut().for_each(|b| *b &= 3);
        }
        if let Ok(Some(v)) = m::decode_any(spec.kind, &head, 0) {
            assert!(v.is_object());
        }
    }
}
