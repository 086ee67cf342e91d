import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { HISTORY_SECONDS } from "../data/history";
import { type Palette, palette } from "../lib/palette";
import { useStore } from "../lib/store";
import { Swatch } from "./swatch";

export interface Line {
  name: string;
  colour: keyof Palette["css"];
  values: (number | null)[];
  area?: boolean;
}

interface Props {
  label: string;
  times: number[];
  lines: Line[];
  format: (value: number | null) => string;
  axis: (value: number) => string;
  most?: number; // the upper end of the scale, if it is fixed
}

const HEIGHT = 168;

function optionsOf(props: Props, colours: Palette, onCursor: (index: number | null) => void) {
  const axis = { stroke: colours.css.muted, font: "11px system-ui", ticks: { show: false } };
  const options: uPlot.Options = {
    width: 300,
    height: HEIGHT,
    padding: [8, 2, 0, 0],
    legend: { show: false },
    cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
    scales: {
      x: {
        time: true,
        range: (chart) => {
          const end = (chart.data[0].at(-1) as number | undefined) ?? Date.now() / 1000;
          return [end - HISTORY_SECONDS, end];
        },
      },
      // Room above zero where all is zero, so that the line lies on the axis.
      y: { range: (_, __, high) => [0, props.most ?? Math.max(1, (high ?? 0) * 1.1)] },
    },
    axes: [
      { ...axis, space: 70, size: 24, grid: { show: false }, values: (_, at) => at.map(ago) },
      {
        ...axis,
        size: 52,
        space: 36,
        grid: { stroke: colours.css.grid, width: 1 },
        values: (_, at) => at.map(props.axis),
      },
    ],
    series: [
      {},
      ...props.lines.map((line) => ({
        label: line.name,
        stroke: colours.css[line.colour],
        fill: line.area
          ? colours.css[line.colour].replace(")", " / 0.16)").replaceAll(",", "")
          : undefined,
        width: 1.5,
        points: { show: false },
      })),
    ],
    hooks: { setCursor: [(chart) => onCursor(chart.cursor.idx ?? null)] },
  };
  return options;
}

function ago(seconds: number): string {
  return new Date(seconds * 1000).toLocaleTimeString("en-GB", {
    hour: "2-digit",
    minute: "2-digit",
  });
}

// Lines over the last five minutes. The legend has the values under the pointer, or the newest ones.
export function Chart(props: Props) {
  const place = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | null>(null);
  const [at, setAt] = useState<number | null>(null);
  const colours = useStore(palette);
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const plot = new uPlot(optionsOf(props, colours, setAt), dataOf(props), element);
    chart.current = plot;
    const resize = () =>
      plot.setSize({ width: Math.max(100, element.clientWidth), height: HEIGHT });
    const observer = new ResizeObserver(resize);
    observer.observe(element);
    resize();
    return () => {
      observer.disconnect();
      plot.destroy();
    };
  }, [colours, props.most]);
  useEffect(() => chart.current?.setData(dataOf(props)), [props.times]);
  const index = at ?? props.times.length - 1;
  const said = props.lines.map(
    (line) => `${line.name} ${props.format(line.values.at(-1) ?? null)}`,
  );
  return (
    <div class="chart">
      <div class="legend small">
        {props.lines.map((line) => (
          <span key={line.name}>
            <Swatch colour={colours.css[line.colour]} />
            <span class="muted">{line.name}</span>
            <b>{props.format(line.values[index] ?? null)}</b>
          </span>
        ))}
      </div>
      <div
        ref={place}
        class="plot"
        role="img"
        aria-label={`${props.label}, now: ${said.join(", ")}`}
      />
    </div>
  );
}

function dataOf(props: Props): uPlot.AlignedData {
  return [props.times, ...props.lines.map((line) => line.values)];
}
