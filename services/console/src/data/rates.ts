import type { Sequence } from "../api/types";

// Speeds from the progress of sequences. A rate is over so many snapshots, so that it is neither nervous nor late.
const SNAPSHOTS = 4;
// Between two snapshots that lie so far apart the tab was hidden or the manager away.
const GAP_MS = 6000;

interface Totals {
  at: number; // milliseconds
  prompt: number;
  decoded: number;
  evicted: number;
  lengths: Map<string, number>;
}

export interface Rates {
  prompt: number | null; // tokens per second
  decoded: number | null;
  evicted: number | null; // pages per second
  bySequence: Map<string, number>;
}

export const NO_RATES: Rates = {
  prompt: null,
  decoded: null,
  evicted: null,
  bySequence: new Map(),
};

export class RateMeter {
  private window: Totals[] = [];

  // `evicted` is a counter that only grows.
  add(at: number, sequences: Sequence[], evicted: number): Rates {
    const last = this.window.at(-1);
    if (last && at - last.at > GAP_MS) this.window = [];
    const before = this.window.at(-1);
    const next: Totals = {
      at,
      prompt: before?.prompt ?? 0,
      decoded: before?.decoded ?? 0,
      evicted,
      lengths: new Map(sequences.map((one) => [one.sequence_id, one.logical_length])),
    };
    for (const one of sequences) {
      const was = before?.lengths.get(one.sequence_id);
      // A parked sequence that is computed again has a smaller length for a while.
      if (was === undefined || one.logical_length <= was) continue;
      const ofPrompt =
        Math.min(one.logical_length, one.prompt_tokens) - Math.min(was, one.prompt_tokens);
      next.prompt += ofPrompt;
      next.decoded += one.logical_length - was - ofPrompt;
    }
    this.window.push(next);
    if (this.window.length > SNAPSHOTS) this.window.shift();
    return this.rates();
  }

  private rates(): Rates {
    const first = this.window[0];
    const last = this.window.at(-1);
    if (!first || !last || last.at <= first.at) return NO_RATES;
    const seconds = (last.at - first.at) / 1000;
    const bySequence = new Map<string, number>();
    for (const [id, length] of last.lengths) {
      const was = first.lengths.get(id);
      if (was !== undefined) bySequence.set(id, Math.max(0, length - was) / seconds);
    }
    return {
      prompt: (last.prompt - first.prompt) / seconds,
      decoded: (last.decoded - first.decoded) / seconds,
      evicted: Math.max(0, last.evicted - first.evicted) / seconds,
      bySequence,
    };
  }
}
