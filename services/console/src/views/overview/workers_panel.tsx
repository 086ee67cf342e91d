import { useLayoutEffect, useRef } from "preact/hooks";
import type { Worker } from "../../api/types";
import { workers } from "../../data/monitor";
import { count, duration } from "../../lib/format";
import { useStore } from "../../lib/store";
import { Panel } from "../../ui/panel";
import { type Column, Table } from "../../ui/table";

function Lease({ left, ttl }: { left: number; ttl: number }) {
  const part = useRef<HTMLSpanElement>(null);
  const share = Math.min(1, left / Math.max(1, ttl));
  useLayoutEffect(() => {
    if (part.current) part.current.style.width = `${100 * share}%`;
  }, [share]);
  return (
    <>
      <span class={`lease ${share < 0.5 ? "low" : ""}`} aria-hidden="true">
        <span ref={part} />
      </span>
      {duration(left)}
    </>
  );
}

function State({ one }: { one: Worker }) {
  if (one.fence) {
    return (
      <span class="tag bad" title={one.fence.reason}>
        fenced {duration(one.fence.fenced_ms)} ago: {one.fence.reason}
      </span>
    );
  }
  // A step that takes so long is a worker that hangs, or nearly so.
  if ((one.step_in_flight_ms ?? 0) > 5000) return <span class="tag warn">slow step</span>;
  return one.draining ? <span class="tag warn">drains</span> : <span class="tag good">serves</span>;
}

function columns(ttl: number): Column<Worker>[] {
  return [
    { name: "Worker", cell: (one) => one.worker_id },
    { name: "State", cell: (one) => <State one={one} /> },
    {
      name: "Lease",
      cell: (one) =>
        one.lease_remaining_ms === undefined ? (
          "none"
        ) : (
          <Lease left={one.lease_remaining_ms} ttl={ttl} />
        ),
    },
    { name: "Sequences", number: true, cell: (one) => count(one.sequences) },
    { name: "Pages", number: true, cell: (one) => count(one.held_pages) },
    {
      name: "Blocked",
      number: true,
      cell: (one) => (one.fence ? count(one.fence.blocked_pages) : "–"),
    },
    {
      name: "Steps",
      number: true,
      cell: (one) => (one.steps_done === undefined ? "–" : count(one.steps_done)),
    },
    { name: "Name", cell: (one) => one.name },
  ];
}

export function WorkersPanel() {
  const all = useStore(workers);
  const ttl = all?.lease_ttl_ms ?? 0;
  return (
    <Panel
      title="Workers"
      class="most"
      flush
      end={<span class="muted small">{ttl > 0 && `leases of ${duration(ttl)}`}</span>}
    >
      <Table
        label="Workers"
        height="low"
        columns={columns(ttl)}
        rows={all?.workers ?? []}
        keyOf={(one) => one.worker_id}
        empty="No worker is attached."
      />
    </Panel>
  );
}
