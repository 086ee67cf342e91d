import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import type { Pool, Sequence } from "../../api/types";
import { manager, pools, sequences } from "../../data/monitor";
import { bytes, count, plural, share } from "../../lib/format";
import { palette } from "../../lib/palette";
import { useStore } from "../../lib/store";
import { budgetPages } from "../../lib/words";
import { Panel } from "../../ui/panel";
import { Swatch } from "../../ui/swatch";

function Bar({ pool }: { pool: Pool }) {
  const bar = useRef<HTMLDivElement>(null);
  const parts = ["held", "reserved", "quarantined"] as const;
  useLayoutEffect(() => {
    parts.forEach((part, index) => {
      const piece = bar.current?.children[index] as HTMLElement | undefined;
      // What is promised and free, because a promise beyond that would leave the bar.
      const pages = Math.min(
        pool[`${part}_pages`],
        part === "reserved" ? pool.free_pages : Number.POSITIVE_INFINITY,
      );
      if (piece) piece.style.width = `${(100 * pages) / Math.max(1, pool.total_pages)}%`;
    });
  }, [pool]);
  const said = `${share(pool.held_pages, pool.total_pages)} of the pages are held`;
  return (
    <div class="pool-bar" ref={bar} role="img" aria-label={said}>
      {parts.map((part) => (
        <span key={part} class={part} />
      ))}
    </div>
  );
}

function Figure(props: { label: string; colour?: string; value: string; note: ComponentChildren }) {
  return (
    <div>
      <div class="figure-label">
        {props.colour && <Swatch colour={props.colour} />}
        {props.label}
      </div>
      <div class="figure-value">{props.value}</div>
      <div class="figure-note">{props.note}</div>
    </div>
  );
}

function Figures({ pool, open }: { pool: Pool; open: Sequence[] }) {
  const { css } = useStore(palette);
  const layout = pool.layout;
  const budget = open.reduce(
    (sum, one) => sum + budgetPages(one, layout?.num_layers ?? 1, layout?.page_tokens ?? 16),
    0,
  );
  const part = (pages: number) => share(pages, pool.total_pages);
  return (
    <div class="figures">
      <Figure
        label="Held"
        colour={css.held}
        value={count(pool.held_pages)}
        note={part(pool.held_pages)}
      />
      <Figure
        label="Promised"
        colour={css.reserved}
        value={count(pool.reserved_pages)}
        note="to running sequences"
      />
      <Figure
        label="Free"
        colour={css.free}
        value={count(pool.free_pages)}
        note={part(pool.free_pages)}
      />
      <Figure
        label="Quarantined"
        colour={css.quarantined}
        value={count(pool.quarantined_pages)}
        note={pool.quarantined_pages > 0 ? "of fenced workers" : "none"}
      />
      <Figure label="Budgets" value={count(budget)} note={`${part(budget)}, if all were full`} />
      <Figure
        label="Sequences"
        value={count(pool.sequences)}
        note={pool.orphans > 0 ? plural(pool.orphans, "orphan") : statesOf(open)}
      />
      <Figure
        label="Swap slots"
        value={count(pool.used_swap_slots)}
        note={pool.total_swap_slots > 0 ? `of ${count(pool.total_swap_slots)}` : "no swap memory"}
      />
      <Figure
        label="Memory"
        value={bytes(pool.pool_bytes)}
        note={`${count(pool.total_pages)} pages of ${bytes(pool.page_bytes)}`}
      />
    </div>
  );
}

function statesOf(open: Sequence[]): string {
  const prefill = open.filter((one) => one.state === "SEQUENCE_STATE_PREFILL").length;
  const parked = open.filter((one) => one.state === "SEQUENCE_STATE_PARKED").length;
  return `${prefill} prefill, ${parked} parked`;
}

export function PoolPanel() {
  const all = useStore(pools) ?? [];
  const open = useStore(sequences) ?? [];
  const build = useStore(manager)?.build.split(" ")[0];
  const model = all[0]?.layout?.model;
  return (
    <Panel
      title="Pool"
      end={
        <span class="muted small">
          {model && <span class="hide-narrow">{model}, </span>}
          {build && `manager ${build}`}
        </span>
      }
    >
      {all.length === 0 && <p class="muted">There is no pool: no worker has attached yet.</p>}
      {all.map((pool) => (
        <div class="pool" key={pool.pool_id}>
          <Bar pool={pool} />
          <Figures pool={pool} open={open} />
        </div>
      ))}
    </Panel>
  );
}
