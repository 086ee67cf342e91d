import { useId, useState } from "preact/hooks";
import type { Loss, Range } from "../api/types";
import { mix } from "../lib/colour";
import { count, plural } from "../lib/format";
import { type Palette, palette } from "../lib/palette";
import { holds, shares, total } from "../lib/ranges";
import { useStore } from "../lib/store";
import { useDrawing, useWidth } from "./canvas";

interface Props {
  label: string;
  layers: Range[][]; // the positions that each layer keeps
  length: number; // positions in all
  prompt: number; // the first position behind the prompt
  rowHeight?: number;
  losses?: Loss[]; // of a plan that is to be seen
}

const GUTTER = 26; // for the numbers of layers

interface Cursor {
  layer: number;
  position: number;
}

// A pixel for each column of each layer, in the colour of what is kept there.
function imageOf(props: Props, columns: number, colours: Palette): HTMLCanvasElement {
  const { layers, length, prompt, losses } = props;
  const image = document.createElement("canvas");
  image.width = columns;
  image.height = layers.length;
  const data = new ImageData(columns, layers.length);
  const pixels = new Uint32Array(data.data.buffer);
  const { pixel } = colours;
  const boundary = (prompt / length) * columns;
  const lost = mix(pixel.gone, pixel.quarantined, 0.75);
  layers.forEach((ranges, layer) => {
    const kept = shares(ranges, length, columns);
    const loss = losses?.find((one) => one.layer === layer);
    for (let column = 0; column < columns; ++column) {
      const at = (column + 0.5) * (length / columns);
      const under = loss && at >= loss.begin && at < loss.end ? lost : pixel.gone;
      const over = column < boundary ? pixel.prompt : pixel.answer;
      pixels[layer * columns + column] = mix(under, over, kept[column] as number);
    }
  });
  image.getContext("2d")?.putImageData(data, 0, 0);
  return image;
}

function drawKept(
  context: CanvasRenderingContext2D,
  scale: number,
  props: Props,
  row: number,
  colours: Palette,
) {
  const { layers, length, prompt } = props;
  const left = GUTTER * scale;
  const { width, height } = context.canvas;
  context.clearRect(0, 0, width, height);
  if (length <= 0 || layers.length === 0) return;
  const columns = Math.max(1, Math.min(length, width - left));
  context.imageSmoothingEnabled = false;
  context.drawImage(imageOf(props, columns, colours), left, 0, width - left, height);
  context.fillStyle = colours.css.surface;
  if (row >= 5) {
    for (let layer = 1; layer < layers.length; ++layer) {
      context.fillRect(left, Math.round(layer * row * scale), width - left, Math.round(scale));
    }
  }
  if (prompt > 0 && prompt < length) {
    context.fillStyle = colours.css.text;
    context.fillRect(
      Math.round(left + (prompt / length) * (width - left)),
      0,
      Math.round(1.5 * scale),
      height,
    );
  }
  context.fillStyle = colours.css.muted;
  context.font = `${Math.round(10 * scale)}px system-ui, sans-serif`;
  context.textAlign = "right";
  context.textBaseline = "middle";
  const every = Math.max(1, Math.ceil(14 / row / 5) * 5);
  for (let layer = 0; layer < layers.length; layer += every) {
    context.fillText(
      String(layer),
      left - 5 * scale,
      Math.max(6 * scale, (layer + 0.5) * row * scale),
    );
  }
}

function explain({ layers, length, prompt }: Props, cursor: Cursor | null): string {
  if (!cursor) return "";
  const ranges = layers[cursor.layer] ?? [];
  const where = cursor.position < prompt ? "of the prompt" : "of the answer";
  const kept = holds(ranges, cursor.position) ? "kept" : "evicted";
  const all = layers.filter((one) => holds(one, cursor.position)).length;
  return (
    `Layer ${cursor.layer}, position ${count(cursor.position)} ${where}: ${kept}. ` +
    `${plural(all, "layer")} of ${layers.length} keep it. The layer keeps ${count(total(ranges))} of ${count(length)}.`
  );
}

function step(key: string, at: Cursor, { layers, length }: Props): Cursor | null {
  const by: Record<string, [number, number]> = {
    ArrowLeft: [0, -1],
    ArrowRight: [0, 1],
    ArrowUp: [-1, 0],
    ArrowDown: [1, 0],
    PageUp: [0, -16],
    PageDown: [0, 16],
    Home: [0, -length],
    End: [0, length],
  };
  const move = by[key];
  if (!move) return null;
  const clamp = (value: number, most: number) => Math.min(most - 1, Math.max(0, value));
  return {
    layer: clamp(at.layer + move[0], layers.length),
    position: clamp(at.position + move[1], length),
  };
}

// Which positions of the text each layer keeps: layers from top to bottom, positions from left to right.
export function KeptMap(props: Props) {
  const { layers, length, prompt } = props;
  const colours = useStore(palette);
  const [place, width] = useWidth<HTMLDivElement>();
  const [cursor, setCursor] = useState<Cursor | null>(null);
  const [spoken, setSpoken] = useState("");
  const help = useId();
  const row =
    props.rowHeight ?? Math.max(3, Math.min(12, Math.floor(380 / Math.max(1, layers.length))));
  const size = { width, height: row * Math.max(1, layers.length) };
  const canvas = useDrawing(
    size,
    (context, scale) => drawKept(context, scale, props, row, colours),
    [layers, length, prompt, props.losses, colours],
  );
  const point = (event: PointerEvent) => {
    const box = canvas.current?.getBoundingClientRect();
    if (!box || length <= 0) return;
    const share = (event.clientX - box.left - GUTTER) / Math.max(1, box.width - GUTTER);
    const layer = Math.floor((event.clientY - box.top) / row);
    const inside = share >= 0 && share < 1 && layer >= 0 && layer < layers.length;
    setCursor(inside ? { layer, position: Math.floor(share * length) } : null);
  };
  const key = (event: KeyboardEvent) => {
    const next = cursor
      ? step(event.key, cursor, props)
      : event.key.startsWith("Arrow")
        ? { layer: 0, position: 0 }
        : null;
    if (!next) return;
    event.preventDefault();
    setCursor(next);
    setSpoken(explain(props, next));
  };
  return (
    <div>
      <div
        ref={place}
        class="map"
        role="application"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: arrow keys move in it
        tabIndex={0}
        aria-label={`${props.label}: ${plural(layers.length, "layer")}, ${plural(length, "position")}`}
        aria-describedby={help}
        onPointerMove={point}
        onPointerLeave={() => setCursor(null)}
        onKeyDown={key}
      >
        <canvas ref={canvas} />
        <Mark cursor={cursor} length={length} row={row} width={width} />
      </div>
      <div class="kept-axis">
        <span>layer, position 0</span>
        <span>{prompt > 0 && prompt < length ? `the prompt ends at ${count(prompt)}` : ""}</span>
        <span>{count(length)}</span>
      </div>
      <p class="kept-text small">
        {explain(props, cursor) || (
          <span class="muted">Point at the map, or focus it and use the arrow keys.</span>
        )}
      </p>
      <span id={help} class="hidden">
        The arrows left and right move by a position, up and down by a layer.
      </span>
      <span class="hidden" aria-live="polite">
        {spoken}
      </span>
    </div>
  );
}

function Mark({
  cursor,
  length,
  row,
  width,
}: {
  cursor: Cursor | null;
  length: number;
  row: number;
  width: number;
}) {
  const set = (mark: HTMLDivElement | null) => {
    if (!mark || !cursor) return;
    const each = (width - GUTTER) / Math.max(1, length);
    const wide = Math.max(8, each + 4);
    const high = Math.max(8, row + 3);
    mark.style.width = `${wide}px`;
    mark.style.height = `${high}px`;
    const x = GUTTER + (cursor.position + 0.5) * each - wide / 2;
    mark.style.translate = `${x}px ${(cursor.layer + 0.5) * row - high / 2}px`;
  };
  return <div class="map-mark" hidden={cursor === null} ref={set} />;
}
