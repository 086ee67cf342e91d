import type { Sequence } from "../../api/types";
import { HELD, type PageTable, QUARANTINED } from "../../data/page_table";
import { count, duration, plural } from "../../lib/format";
import { policyOf, stateOf, tenantOf } from "../../lib/words";
import { hrefOf } from "../../router";
import { Panel } from "../../ui/panel";

export interface PageFacts {
  page: number;
  state: "free" | "held" | "quarantined";
  id: string; // of its sequence, or ""
  pages: number; // of its sequence
  sequence?: Sequence;
  layer?: number;
  score?: number;
}

export function factsOf(table: PageTable, page: number, sequences: Sequence[]): PageFacts | null {
  if (page < 0 || page >= table.pages) return null;
  const state = table.state[page];
  const owner = table.owners[table.owner[page] as number];
  const layer = table.layer[page] as number;
  const score = table.score[page] as number;
  return {
    page,
    state: state === HELD ? "held" : state === QUARANTINED ? "quarantined" : "free",
    id: owner?.id ?? "",
    pages: owner?.pages ?? 0,
    sequence: sequences.find((one) => one.sequence_id === owner?.id),
    layer: layer >= 0 ? layer : undefined,
    score: Number.isNaN(score) ? undefined : score,
  };
}

// One sentence, for those who listen.
export function sayPage(facts: PageFacts | null): string {
  if (!facts) return "";
  const parts = [`Page ${facts.page}, ${facts.state}`];
  if (facts.id)
    parts.push(`sequence ${facts.id}${facts.sequence?.label ? `, ${facts.sequence.label}` : ""}`);
  if (facts.layer !== undefined) parts.push(`layer ${facts.layer}`);
  if (facts.score !== undefined) parts.push(`score ${facts.score.toFixed(3)}`);
  return parts.join(", ");
}

// All that is known of the page under the cursor. Rows without a value keep their place.
export function ExplainedPanel({ facts }: { facts: PageFacts | null }) {
  const one = facts?.sequence;
  const rows: [string, string][] = [
    ["Page", facts ? count(facts.page) : "–"],
    ["State", facts?.state ?? "–"],
    ["Label", one ? one.label || "(none)" : "–"],
    ["Tenant", one ? tenantOf(one.tenant) : "–"],
    ["Its state", one ? stateOf(one) : "–"],
    ["Policy", one ? policyOf(one.cache) : "–"],
    ["Age", one ? duration(one.age_ms) : "–"],
    ["Holds", facts?.id ? plural(facts.pages, "page") : "–"],
    ["Layer", facts?.layer !== undefined ? String(facts.layer) : "–"],
    ["Score", facts?.score !== undefined ? facts.score.toFixed(4) : "–"],
  ];
  return (
    <Panel
      title="Page under the cursor"
      end={
        facts?.id ? (
          <a href={hrefOf(`sequences/${facts.id}`)}>Sequence {facts.id}</a>
        ) : (
          <span class="muted">–</span>
        )
      }
    >
      <div class="explained">
        <dl>
          {rows.map(([name, value]) => [
            <dt key={name}>{name}</dt>,
            <dd key={`${name}.`} title={value}>
              {value}
            </dd>,
          ])}
        </dl>
      </div>
    </Panel>
  );
}
