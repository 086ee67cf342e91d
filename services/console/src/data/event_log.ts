import type { Events, FolioEvent } from "../api/types";

// Of each kind so many are kept, so that evictions do not hide what is rare.
const KEPT_OF_A_KIND = 200;

export interface EventLog {
  newest: number; // the number of the last event
  byKind: Map<string, FolioEvent[]>; // newest first
  evictedPages: number; // since the page was opened
  lost: number;
}

export const NO_EVENTS: EventLog = { newest: 0, byKind: new Map(), evictedPages: 0, lost: 0 };

// `first` says that the events are those of before, which count in no rate.
export function addEvents(log: EventLog, got: Events, first: boolean): EventLog {
  if (got.events.length === 0) return log;
  const byKind = new Map(log.byKind);
  let { newest, evictedPages } = log;
  for (const event of got.events) {
    newest = Math.max(newest, Number(event.number));
    if (!first && event.kind === "EVENT_KIND_PAGES_EVICTED") evictedPages += event.pages ?? 0;
    byKind.set(event.kind, [event, ...(byKind.get(event.kind) ?? [])].slice(0, KEPT_OF_A_KIND));
  }
  const lost = first ? 0 : log.lost + Number(got.lost_events);
  return { newest, byKind, evictedPages, lost };
}

// Kinds that each request can cause. Together with the others they would hide these.
export const BUSY_KINDS = new Set(
  ["WAITING", "OPENED", "CLOSED", "PARKED"]
    .map((what) => `EVENT_KIND_SEQUENCE_${what}`)
    .concat("EVENT_KIND_PAGES_EVICTED"),
);

// The newest `most` events of a kind, of all kinds (""), or of those that are not busy ("rare").
export function chosenEvents(log: EventLog, kind: string, most: number): FolioEvent[] {
  const kinds = [...log.byKind.keys()].filter(
    (one) => kind === "" || one === kind || (kind === "rare" && !BUSY_KINDS.has(one)),
  );
  const all = kinds.flatMap((one) => log.byKind.get(one) ?? []);
  return all.sort((a, b) => Number(b.number) - Number(a.number)).slice(0, most);
}
