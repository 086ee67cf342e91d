import type { ApiError } from "../api/client";
import { getState } from "../api/client";
import { apiKey } from "../api/key";
import { Poller } from "../api/poller";
import type { Events, Manager, Pool, Sequence, Tenant, Workers } from "../api/types";
import { createStore } from "../lib/store";
import { addEvents, type EventLog, NO_EVENTS } from "./event_log";
import { extend, type History, NO_HISTORY } from "./history";
import { NO_RATES, RateMeter, type Rates } from "./rates";

// The connection to the manager, as all views show it.
export interface Link {
  state: "starting" | "live" | "lost" | "key";
  status: number; // of the error
  message: string;
  since: number; // milliseconds, when this state began
}

export const link = createStore<Link>({
  state: "starting",
  status: 0,
  message: "",
  since: Date.now(),
});
export const manager = createStore<Manager | null>(null);
export const pools = createStore<Pool[] | null>(null);
export const sequences = createStore<Sequence[] | null>(null);
export const workers = createStore<Workers | null>(null);
export const tenants = createStore<Tenant[] | null>(null);
export const eventLog = createStore<EventLog>(NO_EVENTS);
export const rates = createStore<Rates>(NO_RATES);
export const history = createStore<History>(NO_HISTORY);

let meter = new RateMeter();
let eventsAgain = true; // the next events are those of before
const errors = new Map<string, ApiError>();

function setLink(state: Link["state"], status = 0, message = ""): void {
  const now = link.get();
  if (now.state === state && now.status === status && now.message === message) return;
  link.set({ state, status, message, since: now.state === state ? now.since : Date.now() });
}

function judge(): void {
  const worst = [...errors.values()][0];
  if (!worst) setLink("live");
  else if (worst.status === 401 || worst.status === 403)
    setLink("key", worst.status, worst.message);
  else setLink("lost", worst.status, worst.message);
}

function poll<T>(
  name: string,
  every: number,
  path: () => string,
  take: (value: T) => void,
): Poller<T> {
  return new Poller<T>(
    every,
    (signal) => getState<T>(path(), signal),
    (value) => {
      errors.delete(name);
      take(value);
      judge();
    },
    (error) => {
      // The manager is another process, whose events begin at 1. Or another one asks the same just now.
      const begins = name === "events" && error.status === 400;
      if (begins) forgetEvents();
      if (begins || error.status === 429) errors.delete(name);
      else errors.set(name, error);
      judge();
      if (link.get().state === "key") stopMonitor();
    },
  );
}

function forgetEvents(): void {
  eventsAgain = true;
  eventLog.set(NO_EVENTS);
}

function takeManager(next: Manager): void {
  const was = manager.get();
  if (was && (was.pid !== next.pid || Number(was.uptime_ms) > Number(next.uptime_ms))) {
    forgetEvents();
    meter = new RateMeter();
  }
  manager.set(next);
}

function takeSequences(next: Sequence[]): void {
  sequences.set(next);
  const now = meter.add(performance.now(), next, eventLog.get().evictedPages);
  rates.set(now);
  const seen = pools.get();
  if (seen) history.set(extend(history.get(), Date.now() / 1000, seen, now));
}

function takeEvents(got: Events): void {
  eventLog.set(addEvents(eventLog.get(), got, eventsAgain));
  eventsAgain = false;
}

const pollers = [
  poll<{ pools: Pool[] }>(
    "pools",
    1000,
    () => "pools",
    (got) => pools.set(got.pools),
  ),
  poll<{ sequences: Sequence[] }>(
    "sequences",
    1000,
    () => "sequences",
    (got) => takeSequences(got.sequences),
  ),
  poll<Events>("events", 1000, () => `events?after=${eventLog.get().newest}`, takeEvents),
  poll<Manager>("manager", 2000, () => "manager", takeManager),
  poll<Workers>(
    "workers",
    2000,
    () => "workers",
    (got) => workers.set(got),
  ),
  poll<{ tenants: Tenant[] }>(
    "tenants",
    2000,
    () => "tenants",
    (got) => tenants.set(got.tenants),
  ),
];

function stopMonitor(): void {
  for (const one of pollers) one.stop();
}

export function startMonitor(): void {
  errors.clear();
  for (const one of pollers) one.start();
}

// A new key is tried at once.
apiKey.subscribe(() => {
  stopMonitor();
  setLink("starting");
  startMonitor();
});
