import { useId } from "preact/hooks";
import type { Sequence } from "../../api/types";
import { rates, sequences } from "../../data/monitor";
import { plural } from "../../lib/format";
import { useStore } from "../../lib/store";
import { policyOf, stateOf, tenantOf } from "../../lib/words";
import { remember, route } from "../../router";
import { Panel } from "../../ui/panel";
import { Table } from "../../ui/table";
import { sequenceColumns } from "./columns";
import { ordered } from "./order";

function passes(one: Sequence, filter: string): boolean {
  const all = [
    one.sequence_id,
    one.label,
    tenantOf(one.tenant),
    one.worker_id,
    stateOf(one),
    policyOf(one.cache),
  ];
  return all.join(" ").toLowerCase().includes(filter.toLowerCase());
}

// All open sequences. The order and the filter are in the address.
export function SequenceListView() {
  const open = useStore(sequences) ?? [];
  const speed = useStore(rates).bySequence;
  const { query } = useStore(route);
  const id = useId();
  const filter = query.get("filter") ?? "";
  const sort = query.get("sort") ?? "rate";
  const descending = query.get("down") === "1";
  const set = (next: { filter?: string; sort?: string; down?: string }) =>
    remember("sequences", { filter, sort, down: descending ? "1" : "", ...next });
  const rows = ordered(
    open.filter((one) => passes(one, filter)),
    speed,
    sort,
    descending,
  );
  return (
    <Panel
      title={plural(open.length, "open sequence")}
      flush
      end={
        <>
          <label class="muted small" for={id}>
            Filter
          </label>
          <input
            id={id}
            class="input"
            type="search"
            value={filter}
            onInput={(event) => set({ filter: event.currentTarget.value })}
          />
        </>
      }
    >
      <Table
        label="Open sequences"
        columns={sequenceColumns(speed)}
        rows={rows}
        keyOf={(one) => one.sequence_id}
        empty={open.length > 0 ? "No sequence passes the filter." : "No sequence is open."}
        sorted={sort}
        descending={descending}
        onSort={(name) => set({ sort: name, down: name === sort && !descending ? "1" : "" })}
      />
    </Panel>
  );
}
