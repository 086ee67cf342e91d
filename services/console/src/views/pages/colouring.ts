import type { Sequence } from "../../api/types";
import { FREE, HELD, type PageTable, QUARANTINED, ranks } from "../../data/page_table";
import { category, mix, type Pixel, ramp } from "../../lib/colour";
import type { Palette } from "../../lib/palette";

export const COLOURINGS = [
  ["state", "State"],
  ["owner", "Sequence"],
  ["layer", "Layer"],
  ["age", "Age"],
  ["score", "Score"],
] as const;
export type Colouring = (typeof COLOURINGS)[number][0];

export const RAMP_STEPS = 64;

// How old the sequence of each owner is, in milliseconds, or NaN if the list of sequences does not have it yet.
export function agesOf(table: PageTable, sequences: Sequence[]): Float64Array {
  const ages = new Map(sequences.map((one) => [one.sequence_id, one.age_ms]));
  return Float64Array.from(table.owners, (owner) => ages.get(owner.id) ?? Number.NaN);
}

// Ages as shares of the way from the youngest to the oldest, by their logarithms.
function agePlaces(ages: Float64Array): Float64Array {
  const logs = ages.map((age) => Math.log(age + 100));
  const known = logs.filter((one) => !Number.isNaN(one));
  const low = Math.min(...known);
  const high = Math.max(...known);
  return logs.map((one) => (high > low ? (one - low) / (high - low) : 1));
}

// The place of each page on the ramp, from 0 to 1, or NaN for a page that has none.
function places(
  table: PageTable,
  by: Colouring,
  layers: number,
  sequences: Sequence[],
): Float32Array {
  if (by === "score") return ranks(table.score);
  const result = new Float32Array(table.pages).fill(Number.NaN);
  const ages = by === "age" ? agePlaces(agesOf(table, sequences)) : null;
  for (let page = 0; page < table.pages; ++page) {
    if (table.state[page] !== HELD) continue;
    const owner = table.owner[page] as number;
    const layer = table.layer[page] as number;
    if (ages) result[page] = owner >= 0 ? (ages[owner] as number) : Number.NaN;
    else if (layer >= 0) result[page] = layers > 1 ? layer / (layers - 1) : 1;
  }
  return result;
}

export interface Colours {
  table: PageTable;
  by: Colouring;
  layers: number;
  sequences: Sequence[];
  palette: Palette;
  highlight: string; // only the pages of this sequence are strong; empty for all
}

// A colour for each page.
export function paint({ table, by, layers, sequences, palette, highlight }: Colours): Uint32Array {
  const { pixel, dark } = palette;
  const colours = new Uint32Array(table.pages);
  const own = table.owners.map((owner) => category(Number(owner.id), dark));
  const steps = ramp(RAMP_STEPS, dark);
  const onRamp = by === "state" || by === "owner" ? null : places(table, by, layers, sequences);
  const unknown = mix(pixel.surface, pixel.held, 0.35);
  const strong = highlight ? table.owners.findIndex((owner) => owner.id === highlight) : -2;
  for (let page = 0; page < table.pages; ++page) {
    const state = table.state[page];
    let colour: Pixel = pixel.free;
    if (state === QUARANTINED) colour = pixel.quarantined;
    else if (state !== FREE && by === "state") colour = pixel.held;
    else if (state !== FREE && by === "owner") colour = own[table.owner[page] as number] ?? unknown;
    else if (state !== FREE && onRamp) {
      const place = onRamp[page] as number;
      const step = Math.round(place * (RAMP_STEPS - 1));
      colour = Number.isNaN(place) ? unknown : (steps[step] ?? unknown);
    }
    if (strong !== -2 && table.owner[page] !== strong) colour = mix(pixel.surface, colour, 0.25);
    colours[page] = colour;
  }
  return colours;
}
