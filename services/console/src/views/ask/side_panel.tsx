import { bytes, count, duration, rate } from "../../lib/format";
import { useStore } from "../../lib/store";
import { Field } from "../../ui/field";
import { Panel } from "../../ui/panel";
import { type Answer, speedOf } from "./answer";
import { BudgetField } from "./budget_field";
import { errorAt, errorElsewhere } from "./errors";
import { POLICIES, type SideName, type SideSettings } from "./settings";
import { answers, change, settings } from "./state";

const STATES: Record<Answer["state"], string> = {
  idle: "not asked yet",
  waiting: "waits for its turn",
  running: "answers …",
  done: "complete",
  stopped: "stopped",
  failed: "failed",
};

function Choices({ name, side, answer }: { name: SideName; side: SideSettings; answer: Answer }) {
  const set = (part: Partial<SideSettings>) => change({ [name]: { ...side, ...part } });
  const policies = POLICIES.some((one) => one === side.policy)
    ? POLICIES
    : [side.policy, ...POLICIES];
  const full = side.policy === "full";
  return (
    <div class="side-settings">
      <Field label="Policy" error={errorAt(answer, "cache.policy")}>
        {(given) => (
          <select
            {...given}
            class="input"
            value={side.policy}
            onChange={(event) => set({ policy: event.currentTarget.value, parameters: "" })}
          >
            {policies.map((one) => (
              <option key={one} value={one}>
                {one === "full" ? "full (evicts nothing)" : one}
              </option>
            ))}
          </select>
        )}
      </Field>
      <Field label="Its parameters">
        {(given) => (
          <input
            {...given}
            class="input mono"
            placeholder="defaults"
            disabled={full}
            value={side.parameters}
            onInput={(event) => set({ parameters: event.currentTarget.value })}
          />
        )}
      </Field>
      <Field label="Decides" error={errorAt(answer, "cache.layers")}>
        {(given) => (
          <select
            {...given}
            class="input"
            disabled={full}
            value={side.layers}
            onChange={(event) =>
              set({ layers: event.currentTarget.value as SideSettings["layers"] })
            }
          >
            <option value="per_layer">in each layer</option>
            <option value="shared">once for all layers</option>
          </select>
        )}
      </Field>
      <BudgetField side={side} error={errorAt(answer, "cache.budget")} onChange={set} />
    </div>
  );
}

function Figures({ answer }: { answer: Answer }) {
  const { cache } = answer;
  const all = answer.promptTokens + answer.answerTokens;
  const known = <T,>(value: T | null | undefined, text: (value: T) => string) =>
    value === null || value === undefined ? "–" : text(value);
  const rows: [string, string, string][] = [
    ["Speed", rate(speedOf(answer)), "tokens/s"],
    ["First token", answer.first ? duration(answer.first - answer.began) : "–", "after asking"],
    [
      "Answer",
      answer.pieces ? count(answer.answerTokens || answer.pieces) : "–",
      answer.finish ? `tokens, ${answer.finish}` : "tokens",
    ],
    [
      "Stayed",
      known(cache, (one) => count(one.resident_tokens)),
      all > 0 && cache ? `of ${count(all)} tokens` : "tokens of a layer",
    ],
    ["Evicted", known(cache, (one) => count(one.evicted_tokens)), "tokens of a layer"],
    [
      "Cache",
      known(cache, (one) => bytes(one.resident_bytes)),
      known(cache, (one) => `${count(one.held_pages)} pages`),
    ],
  ];
  return (
    <dl class="side-figures">
      {rows.map(([label, value, note]) => (
        <div key={label}>
          <dt class="figure-label">{label}</dt>
          <dd>
            <span class="figure-value">{value}</span>
            <span class="figure-note">{note}</span>
          </dd>
        </div>
      ))}
    </dl>
  );
}

// One of the two settings, with its answer and the costs of that.
export function SidePanel({ name }: { name: SideName }) {
  const side = useStore(settings)[name];
  const answer = useStore(answers[name]);
  const letter = name.toUpperCase();
  const error = errorElsewhere(answer);
  const running = answer.state === "running";
  return (
    <Panel
      title={`Side ${letter}`}
      class={`side side-${name}`}
      end={
        <span class={`tag ${answer.state === "failed" ? "bad" : ""}`}>{STATES[answer.state]}</span>
      }
    >
      <Choices name={name} side={side} answer={answer} />
      {/* While it is busy, screen readers wait, and then read the whole answer once. */}
      <div
        class="answer"
        role="log"
        aria-label={`Answer ${letter}`}
        aria-live="polite"
        aria-busy={running}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: keys scroll it
        tabIndex={0}
      >
        {answer.text || (
          <span class="muted">
            {running ? "Waits for the first token …" : "The answer appears here."}
          </span>
        )}
        {running && answer.text && <span class="caret" aria-hidden="true" />}
      </div>
      {error && (
        <p class="notice bad side-error" role="alert">
          {error}
        </p>
      )}
      <Figures answer={answer} />
    </Panel>
  );
}
