import type { Pool } from "../api/types";
import type { Rates } from "./rates";

export const HISTORY_SECONDS = 300;

type Value = number | null;

// The last five minutes, as columns of uPlot: times in seconds, and a value or null for each.
export interface History {
  times: number[];
  held: Value[];
  reserved: Value[];
  quarantined: Value[];
  prompt: Value[];
  decoded: Value[];
  evicted: Value[];
}

export const NO_HISTORY: History = {
  times: [],
  held: [],
  reserved: [],
  quarantined: [],
  prompt: [],
  decoded: [],
  evicted: [],
};

const COLUMNS = Object.keys(NO_HISTORY) as (keyof History)[];

// The history with one more moment, and without the moments that are too old. A gap is a moment without values.
export function extend(history: History, time: number, pools: Pool[], rates: Rates): History {
  const sum = (field: "held_pages" | "reserved_pages" | "quarantined_pages") =>
    pools.reduce((all, pool) => all + pool[field], 0);
  const moment = {
    times: time,
    held: sum("held_pages"),
    reserved: sum("reserved_pages"),
    quarantined: sum("quarantined_pages"),
    prompt: rates.prompt,
    decoded: rates.decoded,
    evicted: rates.evicted,
  };
  const last = history.times.at(-1);
  const gap = last !== undefined && time - last > 6;
  const old = history.times.findIndex((one) => one >= time - HISTORY_SECONDS);
  const result = {} as Record<keyof History, Value[]>;
  for (const name of COLUMNS) {
    const column: Value[] = history[name].slice(old < 0 ? history.times.length : old);
    if (gap && old >= 0) column.push(name === "times" ? last + 1 : null);
    column.push(moment[name]);
    result[name] = column;
  }
  return result as unknown as History;
}
