import { history, pools } from "../../data/monitor";
import { count, rate, short } from "../../lib/format";
import { useStore } from "../../lib/store";
import { Chart } from "../../ui/chart";
import { Panel } from "../../ui/panel";

const pages = (value: number | null) => (value === null ? "–" : count(value));

// Charts of the last five minutes.
export function ThroughputPanels() {
  const past = useStore(history);
  const total = (useStore(pools) ?? []).reduce((sum, pool) => sum + pool.total_pages, 0);
  return (
    <>
      <Panel title="Pages" class="third">
        <Chart
          label="Pages of the pool over five minutes"
          times={past.times}
          lines={[
            { name: "held", colour: "held", values: past.held, area: true },
            { name: "promised", colour: "muted", values: past.reserved },
            { name: "quarantined", colour: "quarantined", values: past.quarantined },
          ]}
          format={pages}
          axis={short}
          most={total || undefined}
        />
      </Panel>
      <Panel title="Tokens per second" class="third">
        <Chart
          label="Tokens per second over five minutes"
          times={past.times}
          lines={[
            { name: "prompt", colour: "prompt-rate", values: past.prompt },
            { name: "decoded", colour: "decode-rate", values: past.decoded, area: true },
          ]}
          format={rate}
          axis={short}
        />
      </Panel>
      <Panel title="Evicted pages per second" class="third">
        <Chart
          label="Evicted pages per second over five minutes"
          times={past.times}
          lines={[{ name: "evicted", colour: "evict-rate", values: past.evicted, area: true }]}
          format={rate}
          axis={short}
        />
      </Panel>
    </>
  );
}
