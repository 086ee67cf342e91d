import type { Tenant } from "../../api/types";
import { tenants } from "../../data/monitor";
import { count } from "../../lib/format";
import { useStore } from "../../lib/store";
import { tenantOf } from "../../lib/words";
import { Panel } from "../../ui/panel";
import { type Column, Table } from "../../ui/table";

const COLUMNS: Column<Tenant>[] = [
  { name: "Tenant", cell: (one) => tenantOf(one.tenant) },
  { name: "Waits", number: true, cell: (one) => count(one.waiting) },
  { name: "Parked", number: true, cell: (one) => count(one.parked) },
  { name: "Sequences", number: true, cell: (one) => count(one.sequences) },
  { name: "Pages", number: true, cell: (one) => count(one.held_pages) },
];

export function TenantsPanel() {
  const all = useStore(tenants) ?? [];
  const waiting = all.reduce((sum, one) => sum + one.waiting + one.parked, 0);
  return (
    <Panel
      title="Queues and tenants"
      class="third"
      flush
      end={
        <span class={waiting > 0 ? "tag warn" : "muted small"}>
          {waiting === 0
            ? "no request waits for pages"
            : `${count(waiting)} ${waiting === 1 ? "waits" : "wait"} for pages`}
        </span>
      }
    >
      <Table
        label="Tenants"
        height="low"
        columns={COLUMNS}
        rows={all}
        keyOf={(one) => one.tenant}
        empty="No tenant has a sequence, or a request that waits."
      />
    </Panel>
  );
}
