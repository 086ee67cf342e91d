import type { PastPlan } from "../../api/types";
import { count, duration } from "../../lib/format";
import { Panel } from "../../ui/panel";
import { type Column, Table } from "../../ui/table";

interface Props {
  plans: PastPlan[]; // oldest first
  shown: PastPlan | null;
  onShow: (plan: PastPlan | null) => void;
}

function span(values: number[]): string {
  if (values.length === 0) return "–";
  const [low, high] = [Math.min(...values), Math.max(...values)];
  return low === high ? count(low) : `${count(low)} to ${count(high)}`;
}

function columns({ shown, onShow }: Props): Column<PastPlan>[] {
  return [
    { name: "Plan", number: true, cell: (one) => one.plan_epoch },
    { name: "Ago", number: true, cell: (one) => duration(one.ago_ms) },
    { name: "Length then", number: true, cell: (one) => count(one.logical_length) },
    { name: "Kind", cell: (one) => (one.compaction ? "compaction" : "drop of pages") },
    { name: "Freed pages", number: true, cell: (one) => count(one.freed_pages) },
    { name: "Layers", number: true, cell: (one) => count(one.losses.length) },
    {
      name: "Tokens lost in a layer",
      number: true,
      cell: (one) => span(one.losses.map((loss) => loss.tokens)),
    },
    {
      name: "Between positions",
      number: true,
      cell: (one) => span(one.losses.flatMap((loss) => [loss.begin, loss.end])),
    },
    {
      name: "Map",
      cell: (one) => (
        <button
          type="button"
          class="button small"
          aria-pressed={shown === one}
          aria-label={`Show the losses of plan ${one.plan_epoch} in the map`}
          disabled={one.losses.length === 0}
          onClick={() => onShow(shown === one ? null : one)}
        >
          Show
        </button>
      ),
    },
  ];
}

// What was evicted when. A plan can be shown in the map.
export function PlansPanel(props: Props) {
  return (
    <Panel
      title="Plans"
      flush
      end={<span class="muted small">the newest 32 that were carried out</span>}
    >
      <Table
        label="Plans"
        height="tall"
        columns={columns(props)}
        rows={[...props.plans].reverse()}
        keyOf={(one) => one.plan_epoch}
        empty="Nothing was evicted yet."
      />
    </Panel>
  );
}
