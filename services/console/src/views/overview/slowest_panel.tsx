import { rates, sequences } from "../../data/monitor";
import { useStore } from "../../lib/store";
import { hrefOf } from "../../router";
import { Panel } from "../../ui/panel";
import { Table } from "../../ui/table";
import { sequenceColumns } from "../sequence/columns";
import { ordered } from "../sequence/order";

const ROWS = 50;

export function SlowestPanel() {
  const open = useStore(sequences) ?? [];
  const speed = useStore(rates).bySequence;
  const rows = ordered(open, speed, "rate", false).slice(0, ROWS);
  return (
    <Panel
      title="Slowest sequences"
      flush
      end={<a href={hrefOf("sequences")}>All {open.length}</a>}
    >
      <Table
        label="Slowest sequences"
        height="short"
        columns={sequenceColumns(speed)}
        rows={rows}
        keyOf={(one) => one.sequence_id}
        empty="No sequence is open."
      />
    </Panel>
  );
}
