import type { PageRun } from "../api/types";

export const FREE = 1;
export const HELD = 2;
export const QUARANTINED = 3;

const STATES: Record<string, number> = {
  PAGE_STATE_FREE: FREE,
  PAGE_STATE_HELD: HELD,
  PAGE_STATE_QUARANTINED: QUARANTINED,
};

export interface Owner {
  id: string;
  pages: number;
}

// The pages of a pool in columns, so that 65,536 of them are drawn within a frame.
export interface PageTable {
  pages: number;
  state: Uint8Array;
  owner: Int32Array; // index into owners, or -1
  layer: Int16Array; // -1: not told
  score: Float32Array; // NaN: none
  owners: Owner[]; // in the order of their first pages
}

export function expand(runs: PageRun[]): PageTable {
  const pages = runs.reduce((sum, run) => sum + run.pages, 0);
  const table: PageTable = {
    pages,
    state: new Uint8Array(pages),
    owner: new Int32Array(pages),
    layer: new Int16Array(pages),
    score: new Float32Array(pages),
    owners: [],
  };
  const indices = new Map<string, number>();
  let at = 0;
  for (const run of runs) {
    const end = at + run.pages;
    table.state.fill(STATES[run.state] ?? 0, at, end);
    table.owner.fill(ownerOf(run, table, indices), at, end);
    table.layer.fill(run.layer ?? -1, at, end);
    table.score.fill(run.score ?? Number.NaN, at, end);
    at = end;
  }
  return table;
}

function ownerOf(run: PageRun, table: PageTable, indices: Map<string, number>): number {
  // A held page of sequence 0 has changed hands just now.
  if (run.state !== "PAGE_STATE_HELD" || run.sequence_id === "0") return -1;
  let index = indices.get(run.sequence_id);
  if (index === undefined) {
    index = table.owners.length;
    indices.set(run.sequence_id, index);
    table.owners.push({ id: run.sequence_id, pages: 0 });
  }
  const owner = table.owners[index];
  if (owner) owner.pages += run.pages;
  return index;
}

// For each page the rank of its score among all scores, from 0 to 1, or NaN. Scores of policies have different scales.
export function ranks(score: Float32Array): Float32Array {
  const sorted = score.filter((one) => !Number.isNaN(one)).sort();
  const result = new Float32Array(score.length).fill(Number.NaN);
  for (let page = 0; page < score.length; ++page) {
    const value = score[page] as number;
    if (Number.isNaN(value)) continue;
    let low = 0;
    let high = sorted.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((sorted[middle] as number) < value) low = middle + 1;
      else high = middle;
    }
    result[page] = sorted.length > 1 ? low / (sorted.length - 1) : 1;
  }
  return result;
}
