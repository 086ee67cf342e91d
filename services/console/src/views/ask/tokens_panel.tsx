import { useMemo, useState } from "preact/hooks";
import { count } from "../../lib/format";
import { layersOf } from "../../lib/ranges";
import { useStore } from "../../lib/store";
import { Panel } from "../../ui/panel";
import type { Answer } from "./answer";
import type { SideName } from "./settings";
import { answers, promptTokens } from "./state";
import { KeptLegend, TokenField } from "./token_field";

// In how many layers each token of the prompt is kept, or null before it is known.
function useCounts(answer: Answer, tokens: number): Uint16Array | null {
  return useMemo(() => (answer.kept ? layersOf(answer.kept, tokens) : null), [answer.kept, tokens]);
}

function summary(counts: Uint16Array | null, layers: number): string {
  if (!counts || layers === 0 || counts.length === 0) return "–";
  const sum = counts.reduce((all, one) => all + one, 0);
  const everywhere = counts.reduce((all, one) => all + (one === layers ? 1 : 0), 0);
  const nowhere = counts.reduce((all, one) => all + (one === 0 ? 1 : 0), 0);
  const mean = Math.round((100 * sum) / (layers * counts.length));
  return `${mean} % kept. ${count(everywhere)} tokens in all layers, ${count(nowhere)} in none`;
}

interface Explained {
  texts: string[];
  at: number;
  counts: Record<SideName, Uint16Array | null>;
  layers: Record<SideName, number>;
}

export function explainToken({ texts, at, counts, layers }: Explained): string {
  const text = texts[at];
  if (text === undefined) return "";
  const known = (["a", "b"] as const).filter((name) => counts[name]);
  const kept = known.map(
    (name) => `by ${name.toUpperCase()} in ${counts[name]?.[at]} of ${layers[name]} layers`,
  );
  const where = kept.length > 0 ? ` Kept ${kept.join(", ")}.` : "";
  return `Position ${count(at)}, ${JSON.stringify(text)}.${where}`;
}

// The prompt twice, each token shaded by the share of layers that kept it.
export function TokensPanel() {
  const { texts, error } = useStore(promptTokens);
  const a = useStore(answers.a);
  const b = useStore(answers.b);
  const [at, setAt] = useState(-1);
  const [spoken, setSpoken] = useState("");
  const counts = { a: useCounts(a, texts.length), b: useCounts(b, texts.length) };
  const layers = { a: a.kept?.length ?? 0, b: b.kept?.length ?? 0 };
  const explained = { texts, counts, layers };
  const move = (next: number) => {
    setAt(next);
    setSpoken(explainToken({ ...explained, at: next }));
  };
  return (
    <Panel title="The prompt, by what stayed" end={<KeptLegend />}>
      <p class="token-text">
        {explainToken({ ...explained, at }) || (
          <span class="muted">
            {texts.length > 0
              ? "Point at a token, or focus a side and use the arrow keys."
              : "After an answer, each token is shaded by how many layers kept it."}
          </span>
        )}
      </p>
      {error && (
        <p class="notice bad" role="alert">
          {error.message}
        </p>
      )}
      <div class="token-sides">
        {(["a", "b"] as const).map((name) => (
          <div key={name} class={`token-side side-${name}`}>
            <h3>
              Side {name.toUpperCase()}{" "}
              <span class="muted">{summary(counts[name], layers[name])}</span>
            </h3>
            <TokenField
              label={`Tokens of the prompt, side ${name.toUpperCase()}`}
              texts={texts}
              counts={counts[name]}
              layers={layers[name]}
              at={at}
              onPoint={setAt}
              onKey={move}
            />
          </div>
        ))}
      </div>
      <span class="hidden" aria-live="polite">
        {spoken}
      </span>
    </Panel>
  );
}
