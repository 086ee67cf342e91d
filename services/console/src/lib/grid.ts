// Cells of the same size in rows, as large as the place allows.
export interface Grid {
  cell: number; // CSS pixels
  columns: number;
  rows: number;
}

const LARGEST = 18;
const SMALLEST = 2;

export function fit(cells: number, width: number, height: number): Grid {
  for (let cell = LARGEST; cell > SMALLEST; --cell) {
    const columns = Math.floor(width / cell);
    if (columns > 0 && Math.ceil(cells / columns) * cell <= height)
      return gridOf(cells, columns, cell);
  }
  return gridOf(cells, Math.max(1, Math.floor(width / SMALLEST)), SMALLEST);
}

function gridOf(cells: number, columns: number, cell: number): Grid {
  return { cell, columns, rows: Math.ceil(cells / columns) };
}

// The cell at a point, or -1.
export function cellAt(grid: Grid, cells: number, x: number, y: number): number {
  const column = Math.floor(x / grid.cell);
  const row = Math.floor(y / grid.cell);
  const index = row * grid.columns + column;
  return column >= 0 && column < grid.columns && row >= 0 && index < cells ? index : -1;
}

// The cell that a key of the keyboard moves to, or null for other keys.
export function moved(key: string, index: number, columns: number, cells: number): number | null {
  const steps: Record<string, number> = {
    ArrowLeft: index - 1,
    ArrowRight: index + 1,
    ArrowUp: index - columns,
    ArrowDown: index + columns,
    PageUp: index - 8 * columns,
    PageDown: index + 8 * columns,
    Home: 0,
    End: cells - 1,
  };
  const next = steps[key];
  if (next === undefined || cells === 0) return null;
  return next < 0 || next >= cells ? Math.min(cells - 1, Math.max(0, index)) : next;
}
