import type { Range } from "../api/types";

// Ranges [begin, end) of logical positions, ascending and apart from each other.

export function total(ranges: Range[]): number {
  return ranges.reduce((sum, one) => sum + one.end - one.begin, 0);
}

export function holds(ranges: Range[], position: number): boolean {
  let low = 0;
  let high = ranges.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    const one = ranges[middle] as Range;
    if (position < one.begin) high = middle;
    else if (position >= one.end) low = middle + 1;
    else return true;
  }
  return false;
}

// How many of the positions [begin, end) the ranges hold.
export function overlap(ranges: Range[], begin: number, end: number): number {
  let sum = 0;
  for (const one of ranges) {
    if (one.begin >= end) break;
    sum += Math.max(0, Math.min(end, one.end) - Math.max(begin, one.begin));
  }
  return sum;
}

// For each of `length` positions, in how many layers it is kept.
export function layersOf(layers: Range[][], length: number): Uint16Array {
  const counts = new Uint16Array(length);
  for (const ranges of layers) {
    for (const one of ranges) {
      for (let at = one.begin; at < Math.min(one.end, length); ++at)
        counts[at] = (counts[at] ?? 0) + 1;
    }
  }
  return counts;
}

// The share of each of `columns` equal parts of `length` positions that the ranges hold.
export function shares(ranges: Range[], length: number, columns: number): Float32Array {
  const parts = new Float32Array(columns);
  if (length <= 0) return parts;
  const scale = columns / length;
  for (const one of ranges) {
    const begin = one.begin * scale;
    const end = Math.min(one.end, length) * scale;
    for (let column = Math.floor(begin); column < Math.min(columns, Math.ceil(end)); ++column) {
      const part = Math.min(end, column + 1) - Math.max(begin, column);
      parts[column] = Math.min(1, (parts[column] ?? 0) + part);
    }
  }
  return parts;
}
