import { useId } from "preact/hooks";
import type { FolioEvent } from "../../api/types";
import { chosenEvents } from "../../data/event_log";
import { eventLog } from "../../data/monitor";
import { count, plural, time, word } from "../../lib/format";
import { useStore } from "../../lib/store";
import { detailOf, kindOf } from "../../lib/words";
import { hrefOf, remember, route } from "../../router";
import { Panel } from "../../ui/panel";
import { type Column, Table } from "../../ui/table";

const ROWS = 200;
const BAD = /refused|fenced|orphan|given up|killed|failed|quarantine/;

const COLUMNS: Column<FolioEvent>[] = [
  { name: "Time", cell: (one) => time(one.time_us) },
  {
    name: "Kind",
    cell: (one) => (
      <span class={`event-kind ${BAD.test(kindOf(one)) ? "bad-text" : ""}`}>{kindOf(one)}</span>
    ),
  },
  {
    name: "Sequence",
    number: true,
    cell: (one) =>
      one.sequence_id === undefined ? (
        ""
      ) : (
        <a href={hrefOf(`sequences/${one.sequence_id}`)}>{one.sequence_id}</a>
      ),
  },
  { name: "Details", fill: true, cell: detailOf, title: detailOf },
];

function Filter({ kind, kinds }: { kind: string; kinds: [string, number][] }) {
  const id = useId();
  const choose = (value: string) => remember("overview", value === "rare" ? {} : { events: value });
  return (
    <>
      <label class="muted small" for={id}>
        Kind
      </label>
      <select
        id={id}
        class="input"
        value={kind}
        onChange={(event) => choose(event.currentTarget.value)}
      >
        <option value="rare">all but those of each request</option>
        <option value="all">all</option>
        {kinds.map(([one, number]) => (
          <option key={one} value={one}>
            {word(one, "EVENT_KIND_")} ({count(number)})
          </option>
        ))}
      </select>
    </>
  );
}

// Recent events. Their kind is in the address, so that a link repeats the filter.
export function EventsPanel() {
  const log = useStore(eventLog);
  const kind = useStore(route).query.get("events") ?? "rare";
  const kinds = [...log.byKind].map(([one, events]): [string, number] => [one, events.length]);
  if (!["rare", "all"].includes(kind) && !log.byKind.has(kind)) kinds.push([kind, 0]);
  const rows = chosenEvents(log, kind === "all" ? "" : kind, ROWS);
  return (
    <Panel
      title="Events"
      flush
      end={
        <>
          {log.lost > 0 && <span class="tag warn">{plural(log.lost, "event")} missed</span>}
          <Filter kind={kind} kinds={kinds.sort()} />
        </>
      }
    >
      <Table
        label="Events"
        height="tall"
        columns={COLUMNS}
        rows={rows}
        keyOf={(one) => one.number}
        empty="There is no such event."
      />
    </Panel>
  );
}
