import type { Sequence } from "../../api/types";

export const ORDERS: Record<
  string,
  (one: Sequence, speed: Map<string, number>) => number | string
> = {
  id: (one) => Number(one.sequence_id),
  label: (one) => one.label.toLowerCase(),
  state: (one) => one.state,
  // Without a speed yet: behind all others.
  rate: (one, speed) => speed.get(one.sequence_id) ?? Number.MAX_VALUE,
  length: (one) => one.logical_length,
  resident: (one) => one.resident_tokens,
  pages: (one) => one.held_pages,
  evicted: (one) => one.evicted_pages,
  age: (one) => one.age_ms,
  tenant: (one) => one.tenant,
  worker: (one) => one.worker_id,
};

export function ordered(
  all: Sequence[],
  speed: Map<string, number>,
  name: string,
  descending: boolean,
): Sequence[] {
  const key = ORDERS[name] ?? ORDERS.id;
  if (!key) return all;
  const sign = descending ? -1 : 1;
  return all
    .map((one) => ({ one, key: key(one, speed) }))
    .sort((a, b) => sign * (a.key < b.key ? -1 : a.key > b.key ? 1 : 0))
    .map(({ one }) => one);
}
