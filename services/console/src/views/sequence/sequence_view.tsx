import { useEffect, useState } from "preact/hooks";
import { getState } from "../../api/client";
import { Poller } from "../../api/poller";
import type { PastPlan, SequenceDetail } from "../../api/types";
import { link, rates } from "../../data/monitor";
import { palette } from "../../lib/palette";
import { useStore } from "../../lib/store";
import { hrefOf } from "../../router";
import { KeptMap } from "../../ui/kept_map";
import { Panel } from "../../ui/panel";
import { Swatch } from "../../ui/swatch";
import { SequenceFacts } from "./facts";
import { PlansPanel } from "./plans_panel";

interface Seen {
  detail: SequenceDetail | null; // as it was last
  ended: boolean;
}

function useSequence(id: string): Seen {
  const [seen, setSeen] = useState<Seen>({ detail: null, ended: false });
  const away = useStore(link).state !== "live";
  useEffect(() => {
    if (away || seen.ended) return;
    const poller = new Poller<SequenceDetail>(
      1000,
      (signal) => getState(`sequences/${encodeURIComponent(id)}`, signal),
      (detail) => setSeen({ detail, ended: false }),
      (error) => {
        if (error.status === 404 || error.status === 400)
          setSeen((was) => ({ ...was, ended: true }));
      },
    );
    poller.start();
    return () => poller.stop();
  }, [id, away, seen.ended]);
  return seen;
}

function Legend() {
  const { css } = useStore(palette);
  return (
    <span class="legend small">
      <span>
        <Swatch colour={css.prompt} /> kept, prompt
      </span>
      <span>
        <Swatch colour={css.answer} /> kept, answer
      </span>
      <span>
        <Swatch colour={css.gone} /> evicted
      </span>
    </span>
  );
}

// One sequence: its facts, what each layer keeps, and what was evicted when.
export function SequenceView({ id }: { id: string }) {
  const { detail, ended } = useSequence(id);
  const speed = useStore(rates).bySequence.get(id);
  const [plan, setPlan] = useState<PastPlan | null>(null);
  if (!detail) {
    return (
      <div class="center">
        <p class={ended ? "notice" : "muted"}>
          {ended ? `Sequence ${id} is not open. ` : `Asking for sequence ${id} …`}
          {ended && <a href={hrefOf("sequences")}>See those that are.</a>}
        </p>
      </div>
    );
  }
  const { sequence, layers, plans } = detail;
  const shown = plans.find((one) => one.plan_epoch === plan?.plan_epoch) ?? null;
  return (
    <>
      <Panel
        title={`Sequence ${id}${sequence.label ? `, “${sequence.label}”` : ""}`}
        end={
          ended ? (
            <span class="tag warn">ended; this is its last state</span>
          ) : (
            <a href={hrefOf("sequences")}>All sequences</a>
          )
        }
      >
        <SequenceFacts one={sequence} speed={ended ? undefined : speed} />
      </Panel>
      <Panel title="Positions that each layer keeps" end={<Legend />}>
        <KeptMap
          label="Kept positions"
          layers={layers.map((layer) => layer.kept)}
          length={sequence.logical_length}
          prompt={sequence.prompt_tokens}
          losses={shown?.losses}
        />
      </Panel>
      <PlansPanel plans={plans} shown={shown} onShow={setPlan} />
    </>
  );
}
