import type { Sequence } from "../../api/types";
import type { PageTable } from "../../data/page_table";
import { category, css, ramp } from "../../lib/colour";
import { count, duration, plural } from "../../lib/format";
import type { Palette } from "../../lib/palette";
import { hrefOf } from "../../router";
import { useDrawing, useWidth } from "../../ui/canvas";
import { Panel } from "../../ui/panel";
import { Swatch } from "../../ui/swatch";
import { agesOf, type Colouring, RAMP_STEPS } from "./colouring";

const OWNERS = 12;

interface Props {
  table: PageTable;
  by: Colouring;
  layers: number;
  sequences: Sequence[];
  palette: Palette;
  onHighlight: (id: string) => void;
}

function States({ palette, by }: Props) {
  return (
    <div class="legend small">
      {by === "state" && (
        <span>
          <Swatch colour={palette.css.held} /> held
        </span>
      )}
      <span>
        <Swatch colour={palette.css.free} /> free
      </span>
      <span>
        <Swatch colour={palette.css.quarantined} /> quarantined
      </span>
    </div>
  );
}

function Ramp({
  palette,
  low,
  high,
  note,
}: {
  palette: Palette;
  low: string;
  high: string;
  note: string;
}) {
  const [place, width] = useWidth<HTMLDivElement>();
  const canvas = useDrawing(
    { width, height: 12 },
    (context) => {
      const steps = ramp(RAMP_STEPS, palette.dark);
      const each = context.canvas.width / steps.length;
      steps.forEach((colour, step) => {
        context.fillStyle = css(colour);
        context.fillRect(Math.floor(step * each), 0, Math.ceil(each) + 1, context.canvas.height);
      });
    },
    [palette],
  );
  return (
    <div class="ramp" ref={place}>
      <canvas ref={canvas} />
      <div class="ramp-ends">
        <span>{low}</span>
        <span>{high}</span>
      </div>
      <p class="muted small">{note}</p>
    </div>
  );
}

function RampOf(props: Props) {
  const { by, palette, table, layers, sequences } = props;
  if (by === "layer") {
    return (
      <Ramp
        palette={palette}
        low="layer 0"
        high={`layer ${layers - 1}`}
        note="The layer whose tokens the page holds."
      />
    );
  }
  if (by === "age") {
    const ages = [...agesOf(table, sequences)].filter((age) => !Number.isNaN(age));
    const [low, high] = ages.length > 0 ? [Math.min(...ages), Math.max(...ages)] : [0, 0];
    const ends = ages.length > 0 ? [duration(low), duration(high)] : ["–", "–"];
    return (
      <Ramp
        palette={palette}
        low={ends[0] ?? ""}
        high={ends[1] ?? ""}
        note="The age of the page's sequence."
      />
    );
  }
  const note =
    "The rank of the page's score among all scores. Low ones go first. Policies that read no scores have the colour of a held page, pale.";
  return <Ramp palette={palette} low="lowest" high="highest" note={note} />;
}

// The sequences by their pages, the largest first. Pointing at one makes its pages stand out.
function Owners({ table, sequences, palette, onHighlight, by }: Props) {
  const sorted = [...table.owners].sort((a, b) => b.pages - a.pages);
  const labels = new Map(sequences.map((one) => [one.sequence_id, one.label]));
  return (
    <>
      <ul class="owner-list">
        {sorted.slice(0, OWNERS).map(({ id, pages }) => (
          <li
            key={id}
            onPointerEnter={() => onHighlight(id)}
            onPointerLeave={() => onHighlight("")}
          >
            {by === "owner" && <Swatch colour={css(category(Number(id), palette.dark))} />}
            <a
              href={hrefOf(`sequences/${id}`)}
              onFocus={() => onHighlight(id)}
              onBlur={() => onHighlight("")}
            >
              Sequence {id}
            </a>
            <span class="name muted">{labels.get(id)}</span>
            <span class="end">{count(pages)}</span>
          </li>
        ))}
      </ul>
      {sorted.length > OWNERS && (
        <p class="muted small">and {plural(sorted.length - OWNERS, "smaller sequence")}</p>
      )}
      {sorted.length === 0 && <p class="muted">No sequence holds a page.</p>}
    </>
  );
}

export function LegendPanel(props: Props) {
  return (
    <>
      <Panel title="Colours">
        <div class="main-grid">
          {props.by !== "state" && props.by !== "owner" && <RampOf {...props} />}
          <States {...props} />
        </div>
      </Panel>
      <Panel title="Pages by sequence">
        <Owners {...props} />
      </Panel>
    </>
  );
}
