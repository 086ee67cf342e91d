import { useLayoutEffect, useRef } from "preact/hooks";
import { moved } from "../../lib/grid";
import { memo } from "./memo";

interface Props {
  label: string;
  texts: string[];
  counts: Uint16Array | null; // layers that kept each token
  layers: number;
  at: number; // the token under the cursor
  onPoint: (at: number) => void;
  onKey: (at: number) => void;
}

const LEVELS = 8;

// The shade of a token, from 0 (no layer) to 8 (all of them).
export function levelOf(kept: number, layers: number): number {
  if (kept === 0 || layers === 0) return 0;
  if (kept >= layers) return LEVELS;
  return 1 + Math.floor(((LEVELS - 1) * (kept - 1)) / Math.max(1, layers - 1));
}

// A line break is drawn as a sign and breaks the line, so that it can be seen and shaded.
function shown(text: string): string {
  return text.replaceAll("\n", "↵\n");
}

const Tokens = memo(({ texts, counts, layers }: Pick<Props, "texts" | "counts" | "layers">) => (
  <>
    {texts.map((text, index) => (
      <span
        key={index}
        data-at={index}
        class={counts ? `token k${levelOf(counts[index] ?? 0, layers)}` : "token"}
      >
        {shown(text)}
      </span>
    ))}
  </>
));

// All tokens of the prompt. The one under the cursor is marked on both sides.
export function TokenField(props: Props) {
  const { texts, at } = props;
  const field = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const token = field.current?.children[at];
    token?.classList.add("at");
    return () => token?.classList.remove("at");
  }, [at, texts]);
  const point = (event: Event) => {
    const index = (event.target as HTMLElement).dataset.at;
    if (index !== undefined) props.onPoint(Number(index));
  };
  const key = (event: KeyboardEvent) => {
    const next =
      at < 0 ? (event.key.startsWith("Arrow") ? 0 : null) : moved(event.key, at, 10, texts.length);
    if (next === null || texts.length === 0) return;
    event.preventDefault();
    props.onKey(next);
    field.current?.children[next]?.scrollIntoView({ block: "nearest" });
  };
  return (
    <div
      ref={field}
      class="tokens mono"
      role="application"
      aria-label={props.label}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: arrow keys move in it
      tabIndex={0}
      onPointerOver={point}
      onClick={point}
      onKeyDown={key}
    >
      <Tokens texts={texts} counts={props.counts} layers={props.layers} />
    </div>
  );
}

export function KeptLegend() {
  return (
    <span class="legend small" aria-hidden="true">
      <span class="muted">kept in no layer</span>
      <span class="kept-ramp">
        {Array.from({ length: LEVELS + 1 }, (_, level) => (
          <i key={level} class={`k${level}`} />
        ))}
      </span>
      <span class="muted">in all</span>
    </span>
  );
}
