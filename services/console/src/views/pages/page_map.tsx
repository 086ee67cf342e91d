import { useId, useRef } from "preact/hooks";
import { count } from "../../lib/format";
import { cellAt, fit, type Grid, moved } from "../../lib/grid";
import type { Palette } from "../../lib/palette";
import { useDrawing, useWidth } from "../../ui/canvas";

interface Props {
  colours: Uint32Array; // one for each page
  palette: Palette;
  height: number; // at most
  cursor: number; // -1: none
  spoken: string; // what the cell under the cursor is, after it was moved by a key
  onPoint: (page: number) => void;
  onKey: (page: number) => void;
  onOpen: (page: number) => void;
}

// An image with a pixel a page, which is then drawn larger. So the work does not grow with the size of a cell.
function imageOf(colours: Uint32Array, grid: Grid, empty: number): HTMLCanvasElement {
  const image = document.createElement("canvas");
  image.width = grid.columns;
  image.height = grid.rows;
  const data = new ImageData(grid.columns, grid.rows);
  const pixels = new Uint32Array(data.data.buffer);
  pixels.fill(empty);
  pixels.set(colours);
  image.getContext("2d")?.putImageData(data, 0, 0);
  return image;
}

function drawMap(context: CanvasRenderingContext2D, scale: number, props: Props, grid: Grid): void {
  const { width, height } = context.canvas;
  context.imageSmoothingEnabled = false;
  context.clearRect(0, 0, width, height);
  const image = imageOf(props.colours, grid, props.palette.pixel.surface);
  const cell = grid.cell * scale;
  context.drawImage(image, 0, 0, grid.columns * cell, grid.rows * cell);
  if (grid.cell < 4) return;
  context.fillStyle = props.palette.css.surface;
  const line = Math.max(1, Math.round(scale));
  for (let column = 1; column <= grid.columns; ++column) {
    context.fillRect(Math.round(column * cell) - line, 0, line, height);
  }
  for (let row = 1; row <= grid.rows; ++row) {
    context.fillRect(0, Math.round(row * cell) - line, width, line);
  }
}

// The pages of the pool in order. Pointer and arrow keys move a cursor over it.
export function PageMap(props: Props) {
  const { colours, cursor } = props;
  const [place, width] = useWidth<HTMLDivElement>();
  const help = useId();
  const grid = fit(colours.length, Math.max(width, 1), props.height);
  const size = { width: grid.columns * grid.cell, height: grid.rows * grid.cell };
  const canvas = useDrawing(size, (context, scale) => drawMap(context, scale, props, grid), [
    colours,
    props.palette,
    width,
  ]);
  const touched = useRef(-1);
  const pageOf = (event: MouseEvent) => {
    const box = canvas.current?.getBoundingClientRect();
    return box
      ? cellAt(grid, colours.length, event.clientX - box.left, event.clientY - box.top)
      : -1;
  };
  const click = (event: MouseEvent) => {
    const page = pageOf(event);
    if (page < 0) return;
    // A finger cannot hover. So its first touch explains, and its second one opens.
    const finger = (event as PointerEvent).pointerType === "touch";
    if (!finger || touched.current === page) props.onOpen(page);
    touched.current = page;
    props.onPoint(page);
  };
  const key = (event: KeyboardEvent) => {
    if (event.key === "Enter" && cursor >= 0) return props.onOpen(cursor);
    const next =
      cursor < 0
        ? event.key.startsWith("Arrow")
          ? 0
          : null
        : moved(event.key, cursor, grid.columns, colours.length);
    if (next === null) return;
    event.preventDefault();
    props.onKey(next);
  };
  return (
    <div
      ref={place}
      class="map"
      role="application"
      // biome-ignore lint/a11y/noNoninteractiveTabindex: arrow keys move in it
      tabIndex={0}
      aria-label={`Map of ${count(colours.length)} pages`}
      aria-describedby={help}
      onPointerMove={(event) => props.onPoint(pageOf(event))}
      onClick={click}
      onKeyDown={key}
    >
      <canvas ref={canvas} />
      <Mark grid={grid} page={cursor < colours.length ? cursor : -1} />
      <span id={help} class="hidden">
        Arrow keys move from page to page, and Enter opens the sequence of a page.
      </span>
      <span class="hidden" aria-live="polite">
        {props.spoken}
      </span>
    </div>
  );
}

function Mark({ grid, page }: { grid: Grid; page: number }) {
  const set = (mark: HTMLDivElement | null) => {
    if (!mark) return;
    const side = Math.max(grid.cell + 3, 8);
    const offset = (grid.cell - 1 - side) / 2;
    mark.style.width = `${side}px`;
    mark.style.height = `${side}px`;
    mark.style.translate = `${(page % grid.columns) * grid.cell + offset}px ${Math.floor(page / grid.columns) * grid.cell + offset}px`;
  };
  return <div class="map-mark" hidden={page < 0} ref={set} />;
}
