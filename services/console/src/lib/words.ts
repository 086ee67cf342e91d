import type { CacheOptions, FolioEvent, Sequence } from "../api/types";
import { count, plural, word } from "./format";

// The words of folioctl for the states of a sequence.
export function stateOf(one: Sequence): string {
  const state = word(one.state, "SEQUENCE_STATE_");
  return one.closing ? "closing" : one.pinned ? `${state}, pinned` : state;
}

export function tenantOf(name: string): string {
  return name === "" ? "(none)" : name;
}

export function policyOf(cache: CacheOptions | undefined): string {
  return Object.keys(cache?.policy ?? {})[0] ?? "full";
}

// The policy with its parameters, such as "snap_kv (window 64, pool 7)".
export function policyWithParameters(cache: CacheOptions | undefined): string {
  const kind = policyOf(cache);
  const parameters = Object.entries(cache?.policy?.[kind] ?? {}).map(([name, value]) => {
    if (typeof value === "number") return `${name} ${Number(value.toFixed(3))}`;
    if (typeof value === "string") return `${name} ${word(value, "CRUSH_ANCHOR_")}`;
    return typeof value === "boolean" ? (value ? name : "") : name;
  });
  const said = parameters.filter(Boolean).join(", ");
  return said ? `${kind} (${said})` : kind;
}

export function budgetOf(cache: CacheOptions | undefined): string {
  if (!cache || policyOf(cache) === "full") return "none";
  const layers = cache.layer_budget_tokens;
  if (layers.length === 0) return plural(cache.budget_tokens, "token");
  return `${count(Math.min(...layers))} to ${count(Math.max(...layers))} tokens`;
}

// Pages that the sequence may hold when its budget is full, over all layers. Without a budget it is all of its text.
export function budgetPages(one: Sequence, layers: number, pageTokens: number): number {
  const each = one.cache?.layer_budget_tokens ?? [];
  const full = policyOf(one.cache) === "full" || !one.cache;
  const tokens = full ? one.prompt_tokens + one.max_new_tokens : (one.cache?.budget_tokens ?? 0);
  if (each.length > 0) return each.reduce((sum, budget) => sum + Math.ceil(budget / pageTokens), 0);
  return layers * Math.ceil(tokens / pageTokens);
}

export function kindOf(event: FolioEvent): string {
  return word(event.kind, "EVENT_KIND_");
}

// All that an event says, besides its time and kind.
export function detailOf(event: FolioEvent): string {
  const worker = event.worker_name ? `${event.worker_id} (${event.worker_name})` : event.worker_id;
  const parts = [
    event.label && `“${event.label}”`,
    event.policy,
    worker && `worker ${worker}`,
    event.rank !== undefined && `rank ${event.rank}`,
    event.pid && `pid ${event.pid}`,
    event.sequences !== undefined && plural(event.sequences, "sequence"),
    event.tokens !== undefined && plural(event.tokens, "token"),
    event.pages !== undefined && plural(event.pages, "page"),
    event.freed_pages !== undefined && `${count(event.freed_pages)} freed`,
    event.lease_epoch !== undefined && `lease epoch ${event.lease_epoch}`,
    event.code,
    event.text,
  ];
  return parts.filter(Boolean).join(", ");
}
