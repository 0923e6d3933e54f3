// Where a token of the batch stands.
struct Token {
    // In its sequence.
    position: u32,
    // First entry of its sequence in the page table.
    table: u32,
    // Its sequence's place in the batch.
    slot: u32,
    // Tokens of its sequence before it in this batch.
    index: u32,
}
