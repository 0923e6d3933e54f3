//! Stored keys and values as lanes, against the scalar decoding.

use super::bits;
use crate::forge::Random;
use crate::kv::{KvType, PAGE_TOKENS};
use crate::lanes::{all_isas, Kernel, Lanes, LANES};
use crate::stored::{Stored, F16, F24, F32, Q8};
use std::marker::PhantomData;

struct Row<'a, S> {
    head: &'a [u8],
    head_dim: usize,
    row: usize,
    stored: PhantomData<S>,
}

impl<S: Stored> Kernel for Row<'_, S> {
    type Out = Vec<f32>;
    #[inline(always)]
    fn run<L: Lanes>(self) -> Vec<f32> {
        let mut out = Vec::new();
        for d in (0..self.head_dim).step_by(LANES) {
            let width = self.head_dim - d;
            // SAFETY: the slice is a whole head.
            let x = unsafe { S::load::<L>(self.head.as_ptr(), self.head_dim, self.row, d, width) };
            out.extend_from_slice(&x.to_array()[..width.min(LANES)]);
        }
        out
    }
}

fn lanes_of<S: Stored>(kv: KvType, head_dim: usize) {
    assert_eq!(S::TYPE, kv);
    let mut random = Random(3);
    // Aligned for floats, as pages are.
    let mut words = vec![0f32; kv.head_bytes(head_dim) / 4];
    let head: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
    let rows: Vec<Vec<f32>> =
        (0..PAGE_TOKENS).map(|_| (0..head_dim).map(|_| random.float() * 9.0).collect()).collect();
    let planes = kv.planes(head_dim);
    for (i, row) in rows.iter().enumerate() {
        let (first, second) = head.split_at_mut(planes[1].offset);
        kv.encode(
            row,
            [
                &mut first[i * planes[0].row..][..planes[0].row],
                &mut second[i * planes[1].row..][..planes[1].row],
            ],
        );
    }
    for row in 0..PAGE_TOKENS {
        let mut want = vec![0.0; head_dim];
        kv.decode(planes.map(|p| &head[p.offset + row * p.row..][..p.row]), &mut want);
        for isa in all_isas() {
            let got = isa.call(Row::<S> { head: &*head, head_dim, row, stored: PhantomData });
            assert_eq!(bits(&got), bits(&want), "{kv}, {head_dim} elements, row {row}, {}", isa.name());
        }
    }
}

#[test]
fn lanes_read_what_was_stored() {
    for head_dim in [2, 8, 14, 16, 32, 64, 80, 96, 128] {
        lanes_of::<F32>(KvType::F32, head_dim);
        lanes_of::<F24>(KvType::F24, head_dim);
        lanes_of::<F16>(KvType::F16, head_dim);
        lanes_of::<Q8>(KvType::Q8_0, head_dim);
    }
}
