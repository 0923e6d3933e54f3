/// Rows of a tile of a matrix.
pub const ROW_TILE: usize = 64;

/// Where an element of a matrix lies: tiles of [`ROW_TILE`] rows, column by column within a tile.
pub fn weight_at(row: usize, col: usize, cols: usize) -> usize {
    (row / ROW_TILE * cols + col) * ROW_TILE + row % ROW_TILE
}

/// A row-major matrix in the kernels' layout, its last tile padded with zeros. `out` is cleared first.
pub fn tiled(rows: usize, cols: usize, matrix: &[f32], out: &mut Vec<f32>) {
    out.clear();
    out.resize(rows.next_multiple_of(ROW_TILE) * cols, 0.0);
    for row in 0..rows {
        for col in 0..cols {
            out[weight_at(row, col, cols)] = matrix[row * cols + col];
        }
    }
}
