// What the host says about a pass, in one buffer: where its parts begin, then the parts.
const FACTS_IDS: u32 = 0u;
const FACTS_TOKENS: u32 = 1u;
const FACTS_TABLE: u32 = 2u;
const FACTS_SLOTS: u32 = 3u;
const FACTS_TILES: u32 = 4u;
// Of set s of frequencies: FACTS_ANGLES + s; at most eight.
const FACTS_ANGLES: u32 = 8u;

// A token of the batch: its position in its sequence, the first entry of that in the page table, the sequence's
// place in the batch, and how many of its tokens precede this one in the batch.
struct Token {
    position: u32,
    table: u32,
    slot: u32,
    index: u32,
}

fn token_at(t: u32) -> Token {
    let at = facts[FACTS_TOKENS] + 4u * t;
    return Token(facts[at], facts[at + 1u], facts[at + 2u], facts[at + 3u]);
}

// The page of a sequence's position.
fn page_of(table: u32, position: u32) -> u32 {
    return facts[facts[FACTS_TABLE] + table + position / PAGE_TOKENS];
}

// (cos, sin) of a token's pair.
fn angle(kind: u32, t: u32, pairs: u32, pair: u32) -> vec2<f32> {
    let at = facts[FACTS_ANGLES + kind] + 2u * (t * pairs + pair);
    return bitcast<vec2<f32>>(vec2<u32>(facts[at], facts[at + 1u]));
}
#const PAGE_TOKENS: u32 in 32
