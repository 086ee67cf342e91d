import type { ComponentChildren } from "preact";
import type { Sequence } from "../../api/types";
import { bytes, count, duration, plural, rate, word } from "../../lib/format";
import { budgetOf, policyOf, policyWithParameters, stateOf, tenantOf } from "../../lib/words";
import { Facts } from "../../ui/facts";

// What the cache was asked to do. A sequence that keeps all has no such rules.
function ruleFacts({ cache }: Sequence): [string, ComponentChildren][] {
  if (!cache || policyOf(cache) === "full") return [];
  return [
    [
      "Protected",
      `${count(cache.sink_tokens ?? 0)} first, ${count(cache.recent_tokens ?? 0)} latest`,
    ],
    ["Prompt's share", cache.prompt_share ? `${Math.round(100 * cache.prompt_share)} %` : "none"],
    ["Decides", cache.layers === "LAYERS_SHARED" ? "once for all layers" : "in each layer"],
    ["Compaction", word(cache.compaction, "COMPACTION_")],
    ["Mode", word(cache.eviction_mode, "EVICTION_MODE_")],
  ];
}

export function SequenceFacts({ one, speed }: { one: Sequence; speed?: number }) {
  const answer = Math.max(0, one.logical_length - one.prompt_tokens);
  return (
    <Facts
      facts={[
        ["State", stateOf(one)],
        ["Tokens per second", rate(speed)],
        ["Prompt", plural(one.prompt_tokens, "token")],
        ["Answer", `${count(answer)} of at most ${count(one.max_new_tokens)}`],
        ["Age", duration(one.age_ms)],
        ["Resident", `${count(one.resident_tokens)} of ${count(one.logical_length)} tokens`],
        ["Evicted", `${plural(one.evicted_tokens, "token")}, ${plural(one.evicted_pages, "page")}`],
        ["Holds", `${plural(one.held_pages, "page")}, ${bytes(one.held_bytes)}`],
        ["Policy", policyWithParameters(one.cache)],
        ["Budget of a layer", budgetOf(one.cache)],
        ...ruleFacts(one),
        ["Worker", one.worker_id || "none"],
        ["Tenant", tenantOf(one.tenant)],
        ["Priority", String(one.priority)],
        ["Plans", `epoch ${count(one.plan_epoch)}`],
        ["Lease", `epoch ${count(one.lease_epoch)}`],
      ]}
    />
  );
}
