//! From a batch to a queued pass.

use super::device::Gpu;
use super::forward::{Inputs, Model};
use super::pass::Pass;
use super::readback::{Readback, Signal};
use super::scratch::{ActivationScratch, Activations, Scratch, Widths};
use super::states::Grown;
use super::tickets::{Ticket, TicketSlot, Token as Choice};
use super::Inner;
use crate::backend::{Batch, Input, Logits, Slot};
use crate::error::{Error, Result};
use lean_shaders::{ConvSlot, Token};

/// Tokens of one pass at most, whatever the device holds: more gain nothing and only delay a cancellation.
const MAX_TOKENS: usize = 2048;

/// Buffers shared by all passes.
#[derive(Default)]
pub struct Shared {
    ids: Scratch,
    meta: Scratch,
    slots: Scratch,
    table: Scratch,
    angles: Vec<Scratch>,
    activations: ActivationScratch,
    /// Rows of the residual stream that get logits, before and after the final norm.
    rows: [Scratch; 2],
    /// Mask of a selection.
    pub mask: Scratch,
}

/// What a batch looks like to the kernels.
struct Layout {
    ids: Vec<u32>,
    meta: Vec<Token>,
    slots: Vec<ConvSlot>,
    table: Vec<u32>,
    /// Tokens chosen on the device: buffer, its element, and the token's place in `ids`.
    sampled: Vec<(wgpu::Buffer, usize, usize)>,
    /// By slot: rows of logits, first and count.
    rows: Vec<Option<(usize, usize)>>,
    total_rows: usize,
}

/// Tokens that one pass can take.
pub fn max_tokens(gpu: &Gpu, widths: &Widths) -> usize {
    ((gpu.max_binding / (4 * widths.most() as u64)) as usize).min(MAX_TOKENS)
}

/// Queues a batch; on error no state has changed.
pub fn submit(gpu: &Gpu, model: &Model, inner: &mut Inner, batch: &Batch) -> Result<Ticket> {
    for slot in &batch.slots {
        slot.cancel.check()?;
    }
    check(model, inner, batch, max_tokens(gpu, &inner.widths))?;
    let mut grown = Vec::with_capacity(batch.slots.len());
    for slot in &batch.slots {
        grown.push(inner.states.grown(gpu, slot.state, count(&slot.input))?);
    }
    let layout = layout(gpu, inner, batch, &grown)?;
    let mut pass = Pass::new();
    inner.states.copy_pages(gpu, &mut pass, &grown)?;
    let inputs = upload(gpu, model, &mut inner.shared, &layout)?;
    for (from, element, to) in &layout.sampled {
        pass.copy(from, (element * 4) as u64, &inputs.ids, (to * 4) as u64, 4);
    }
    let activations = inner.shared.activations.fit(gpu, &inner.widths, inputs.tokens)?;
    model.layers(&mut pass, &activations, &inputs, &inner.states)?;
    let mut ticket = Ticket {
        slots: Vec::new(),
        chosen: gpu.storage("chosen tokens", (batch.slots.len() * 4) as u64)?,
        logits: head(gpu, model, &mut inner.shared, &mut pass, &activations, &layout)?,
        done: Signal::default(),
    };
    for (slot, rows) in batch.slots.iter().zip(&layout.rows) {
        ticket.slots.push(Some(ticket_slot(gpu, model, &mut pass, &ticket.logits, slot, *rows)?));
    }
    // The last look: a submitted pass cannot be taken back.
    for slot in &batch.slots {
        slot.cancel.check()?;
    }
    pass.submit(gpu)?;
    ticket.done = Signal::after_submitted(gpu);
    for read in ticket.slots.iter().flatten().filter_map(|s| s.read.as_ref()) {
        read.request();
    }
    inner.states.copied += grown.iter().filter(|g| g.copies()).count() as u64;
    for (slot, grown) in batch.slots.iter().zip(grown) {
        inner.states.put(slot.state, grown.state);
    }
    Ok(ticket)
}

fn count(input: &Input) -> usize {
    match input {
        Input::Tokens(ids) => ids.len(),
        Input::Sampled(..) => 1,
    }
}

fn check(model: &Model, inner: &Inner, batch: &Batch, most: usize) -> Result<()> {
    if batch.slots.is_empty() {
        return Err(Error::invalid("batch", "has no slot"));
    }
    let mut states = std::collections::HashSet::new();
    let mut total = 0;
    for slot in &batch.slots {
        inner.states.get(slot.state)?;
        if !states.insert(slot.state) {
            return Err(Error::invalid("batch", format!("state {} occurs twice", slot.state.0)));
        }
        total += count(&slot.input);
        if let Input::Tokens(ids) = &slot.input {
            if ids.is_empty() {
                return Err(Error::invalid("input", "has no token"));
            }
            if let Some(id) = ids.iter().find(|id| **id as usize >= model.plan.vocab) {
                return Err(Error::invalid(
                    "input",
                    format!("token {id} is beyond the {} rows", model.plan.vocab),
                ));
            }
        }
    }
    if total > most {
        return Err(Error::invalid("batch", format!("{total} tokens in one pass; this device takes {most}")));
    }
    Ok(())
}

fn layout(gpu: &Gpu, inner: &mut Inner, batch: &Batch, grown: &[Grown]) -> Result<Layout> {
    let mut all = Layout {
        ids: Vec::new(),
        meta: Vec::new(),
        slots: Vec::new(),
        table: Vec::new(),
        sampled: Vec::new(),
        rows: Vec::new(),
        total_rows: 0,
    };
    for ((slot, grown), number) in batch.slots.iter().zip(grown).zip(0..) {
        let before = inner.states.get(slot.state)?;
        let (first, count) = (all.ids.len(), count(&slot.input));
        let window = |entry: &Option<super::pool::Entry>| entry.as_ref().map_or(0, |e| e.index());
        all.slots.push(ConvSlot {
            first: first as u32,
            count: count as u32,
            window_in: window(&before.window),
            window_out: window(&grown.state.window),
        });
        let table = all.table.len() as u32;
        for index in 0..count as u32 {
            all.meta.push(Token { position: before.len as u32 + index, table, slot: number, index });
        }
        all.table.extend(grown.state.pages.iter().map(|page| page.index()));
        let rows = match slot.logits {
            Logits::None => 0,
            Logits::Last { .. } => 1,
            Logits::All => count,
        };
        all.rows.push((rows > 0).then_some((all.total_rows, rows)));
        all.total_rows += rows;
        push_ids(gpu, inner, &slot.input, &mut all)?;
    }
    Ok(all)
}

fn push_ids(gpu: &Gpu, inner: &mut Inner, input: &Input, all: &mut Layout) -> Result<()> {
    let (ticket, slot) = match input {
        Input::Tokens(ids) => {
            all.ids.extend(ids);
            return Ok(());
        }
        Input::Sampled(ticket, slot) => (ticket, *slot),
    };
    let gone = || Error::invalid("input", format!("ticket {} is over", ticket.0));
    let ticket = inner.tickets.get_mut(ticket).ok_or_else(gone)?;
    // A choice that is up to the host has to be made before the pass that reads it can be queued.
    ticket.slot(slot)?.token.settle(gpu)?;
    match ticket.slot(slot)?.token {
        Choice::Known(id) => all.ids.push(id),
        Choice::OnDevice(_) => {
            all.sampled.push((ticket.chosen.clone(), slot, all.ids.len()));
            all.ids.push(0);
        }
        _ => return Err(Error::invalid("input", format!("slot {slot} has no selection yet"))),
    }
    Ok(())
}

fn upload(gpu: &Gpu, model: &Model, shared: &mut Shared, layout: &Layout) -> Result<Inputs> {
    shared.angles.resize_with(model.frequencies.len(), Scratch::default);
    let mut angles = Vec::new();
    for (scratch, frequencies) in shared.angles.iter_mut().zip(&model.frequencies) {
        let mut turns = Vec::with_capacity(layout.meta.len() * frequencies.len());
        for token in &layout.meta {
            turns.extend(frequencies.iter().map(|f| {
                let (sin, cos) = lean_kernels::math::sin_cos(token.position as f32 * f);
                [cos, sin]
            }));
        }
        angles.push(scratch.fill(gpu, "angles", &turns)?);
    }
    Ok(Inputs {
        tokens: layout.ids.len(),
        ids: shared.ids.fill(gpu, "token ids", &layout.ids)?,
        meta: shared.meta.fill(gpu, "positions", &layout.meta)?,
        slots: shared.slots.fill(gpu, "slots", &layout.slots)?,
        table: shared.table.fill(gpu, "page tables", &layout.table)?,
        angles,
    })
}

/// Logits of the wanted rows, `[total_rows][vocab]`.
fn head(
    gpu: &Gpu,
    model: &Model,
    shared: &mut Shared,
    pass: &mut Pass,
    activations: &Activations,
    layout: &Layout,
) -> Result<Option<wgpu::Buffer>> {
    let (rows, plan) = (layout.total_rows, &model.plan);
    if rows == 0 {
        return Ok(None);
    }
    let logits = gpu.storage("logits", (rows * plan.vocab * 4) as u64)?;
    let [gathered, normed] = &mut shared.rows;
    let gathered = gathered.fit(gpu, "rows of the head", rows * plan.hidden)?;
    let normed = normed.fit(gpu, "rows of the head", rows * plan.hidden)?;
    let row_bytes = (plan.hidden * 4) as u64;
    for (slot, range) in layout.slots.iter().zip(&layout.rows) {
        if let Some((first, count)) = *range {
            let from = slot.first as u64 + u64::from(slot.count) - count as u64;
            let bytes = count as u64 * row_bytes;
            pass.copy(&activations.h, from * row_bytes, &gathered, first as u64 * row_bytes, bytes);
        }
    }
    model.norm(pass, &plan.final_norm, &gathered, &normed, rows);
    model.matmul(pass, plan.head, None, &normed, &logits, rows);
    Ok(Some(logits))
}

fn ticket_slot(
    gpu: &Gpu,
    model: &Model,
    pass: &mut Pass,
    logits: &Option<wgpu::Buffer>,
    slot: &Slot,
    rows: Option<(usize, usize)>,
) -> Result<TicketSlot> {
    let wanted = matches!(slot.logits, Logits::Last { read: true } | Logits::All);
    let mut read = None;
    if let (true, Some(logits), Some((first, count))) = (wanted, logits, rows) {
        let row_bytes = (model.plan.vocab * 4) as u64;
        let readback = Readback::new(gpu, "logits on their way to the host", count as u64 * row_bytes)?;
        readback.copy(pass, logits, first as u64 * row_bytes, 0, count as u64 * row_bytes);
        read = Some(readback);
    }
    Ok(TicketSlot { last_row: rows.map(|(first, count)| first + count - 1), read, token: Choice::Unselected })
}
