// Matrices lie in tiles of ROW_TILE rows, column by column within a tile: neighbouring invocations take
// neighbouring rows and read neighbouring elements. The last tile is padded with zeros.
const ROW_TILE: u32 = 64u;

fn weight_at(row: u32, col: u32, cols: u32) -> u32 {
    return (row / ROW_TILE * cols + col) * ROW_TILE + row % ROW_TILE;
}
