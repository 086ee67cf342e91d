import { useEffect, useMemo, useState } from "preact/hooks";
import { getState } from "../../api/client";
import { Poller } from "../../api/poller";
import type { PageRun } from "../../api/types";
import { link, pools, sequences } from "../../data/monitor";
import { expand, HELD, type PageTable } from "../../data/page_table";
import { count, share } from "../../lib/format";
import { palette } from "../../lib/palette";
import { useStore } from "../../lib/store";
import { go, hrefOf, remember, route } from "../../router";
import { Panel } from "../../ui/panel";
import { Segments } from "../../ui/segments";
import { COLOURINGS, type Colouring, paint } from "./colouring";
import { ExplainedPanel, factsOf, sayPage } from "./explained";
import { LegendPanel } from "./legend";
import { PageMap } from "./page_map";

// Layers and scores make nearly each page a run of its own. So large pools tell only what the colours need.
const LARGE = 16_384;

function pathOf(by: Colouring, pages: number): string {
  const layers = pages <= LARGE || by === "layer";
  const scores = pages <= LARGE || by === "score";
  return `pages?layers=${layers ? 1 : 0}&scores=${scores ? 1 : 0}`;
}

// The pages, again and again until the pause.
function usePages(by: Colouring, total: number, paused: boolean): PageTable | null {
  const [table, setTable] = useState<PageTable | null>(null);
  const [error, setError] = useState(false);
  const away = useStore(link).state !== "live";
  useEffect(() => {
    if (paused || away) return;
    const poller = new Poller<{ runs: PageRun[] }>(
      total > LARGE ? 2000 : 1000,
      (signal) => getState(pathOf(by, total), signal),
      (got) => setTable(expand(got.runs)),
      () => setError(!error),
    );
    poller.start();
    return () => poller.stop();
  }, [by, total, paused, away]);
  return table;
}

function heldOf(table: PageTable): string {
  const held = table.state.reduce((sum, state) => sum + (state === HELD ? 1 : 0), 0);
  return `${count(held)} of ${count(table.pages)} pages held (${share(held, table.pages)})`;
}

// The map of all pages.
export function PagesView() {
  const given = useStore(route).query.get("by");
  const by: Colouring = COLOURINGS.find(([name]) => name === given)?.[0] ?? "owner";
  const pool = useStore(pools)?.[0];
  const open = useStore(sequences) ?? [];
  const colours = useStore(palette);
  const [paused, setPaused] = useState(false);
  const [cursor, setCursor] = useState(-1);
  const [spoken, setSpoken] = useState("");
  const [highlight, setHighlight] = useState("");
  const table = usePages(by, pool?.total_pages ?? 0, paused);
  const layers = pool?.layout?.num_layers ?? 1;
  // While paused the map stays as it is, also where its colours follow the ages of sequences.
  const ages = by === "age" && !paused ? open : null;
  const pixels = useMemo(
    () => table && paint({ table, by, layers, sequences: open, palette: colours, highlight }),
    [table, by, layers, ages, colours, highlight],
  );
  if (!pool) return <p class="muted">There is no pool: no worker has attached yet.</p>;
  if (!table || !pixels) return <p class="muted">Asking for the pages …</p>;
  const facts = factsOf(table, cursor, open);
  const openPage = (page: number) => {
    const id = factsOf(table, page, open)?.id;
    if (id) go(hrefOf(`sequences/${id}`));
  };
  const height = Math.max(320, window.innerHeight - 190);
  return (
    <>
      <div class="title-row">
        <Segments
          label="Colour by"
          values={COLOURINGS}
          value={by}
          onChange={(value) => remember("pages", { by: value })}
        />
        <span class="muted">{heldOf(table)}</span>
        <div class="end">
          <button
            type="button"
            class="button"
            aria-pressed={paused}
            onClick={() => setPaused(!paused)}
          >
            {paused ? "▶ Continue" : "❚❚ Pause"}
          </button>
        </div>
      </div>
      <div class="pages-layout">
        <Panel
          title="Pages"
          end={<span class="muted small">A click opens the page's sequence</span>}
        >
          <PageMap
            colours={pixels}
            palette={colours}
            height={height}
            cursor={cursor}
            spoken={spoken}
            onPoint={setCursor}
            onKey={(page) => {
              setCursor(page);
              setSpoken(sayPage(factsOf(table, page, open)));
            }}
            onOpen={openPage}
          />
        </Panel>
        <div class="side-column">
          <ExplainedPanel facts={facts} />
          <LegendPanel
            table={table}
            by={by}
            layers={layers}
            sequences={open}
            palette={colours}
            onHighlight={setHighlight}
          />
        </div>
      </div>
    </>
  );
}
