import { useState } from "preact/hooks";
import { useStore } from "../../lib/store";
import { Field, NumberField } from "../../ui/field";
import { Panel } from "../../ui/panel";
import { currentLink } from "./ask_view";
import { errorAt } from "./errors";
import { answers, change, run, running, settings, stop } from "./state";

function CopyLink() {
  const [said, setSaid] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(currentLink());
      setSaid("Copied");
    } catch {
      // Browsers refuse on plain HTTP. The address bar has the same link.
      setSaid("Copy it from the address bar");
    }
    setTimeout(() => setSaid(""), 3000);
  };
  return (
    <button type="button" class="button" onClick={copy}>
      <span aria-live="polite">{said || "Copy link"}</span>
    </button>
  );
}

function ModelField({ models }: { models: string[] }) {
  const { model } = useStore(settings);
  const names = model && !models.includes(model) ? [model, ...models] : models;
  return (
    <Field label="Model" class="wide">
      {(given) => (
        <select
          {...given}
          class="input"
          value={model}
          onChange={(event) => change({ model: event.currentTarget.value })}
        >
          <option value="">{names.length === 1 ? names[0] : "any"}</option>
          {names.length > 1 || model
            ? names.map((name) => <option key={name}>{name}</option>)
            : null}
        </select>
      )}
    </Field>
  );
}

function Numbers() {
  const now = useStore(settings);
  const errors = [useStore(answers.a), useStore(answers.b)];
  const at = (place: "max_tokens" | "temperature" | "seed") =>
    errors.map((one) => errorAt(one, place)).find(Boolean);
  return (
    <>
      <NumberField
        label="Most tokens"
        value={now.maxTokens}
        least={1}
        most={1e6}
        step={1}
        error={at("max_tokens")}
        onChange={(maxTokens) => change({ maxTokens: Math.round(maxTokens) })}
      />
      <NumberField
        label="Temperature"
        value={now.temperature}
        least={0}
        most={2}
        step={0.1}
        error={at("temperature")}
        onChange={(temperature) => change({ temperature })}
      />
      <NumberField
        label="Seed"
        value={now.seed}
        least={0}
        most={Number.MAX_SAFE_INTEGER}
        step={1}
        error={at("seed")}
        onChange={(seed) => change({ seed: Math.round(seed) })}
      />
      <Field label="Steps">
        {(given) => (
          <select
            {...given}
            class="input"
            value={now.mode}
            onChange={(event) => change({ mode: event.currentTarget.value as typeof now.mode })}
          >
            <option value="synchronous">synchronous, repeats</option>
            <option value="pipelined">pipelined, faster</option>
          </select>
        )}
      </Field>
    </>
  );
}

// The prompt and all that both sides share.
export function PromptPanel({ models }: { models: string[] }) {
  const now = useStore(settings);
  const busy = useStore(running) !== null;
  const empty = now.prompt.trim() === "";
  const submit = (event: Event) => {
    event.preventDefault();
    if (!busy && !empty) run();
  };
  const key = (event: KeyboardEvent) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit(event);
  };
  return (
    <form onSubmit={submit}>
      <Panel
        title="Prompt"
        end={
          <>
            <CopyLink />
            <button type="button" class="button" disabled={!busy} onClick={stop}>
              Stop
            </button>
            <button type="submit" class="button primary" disabled={busy || empty}>
              Ask both
            </button>
          </>
        }
      >
        <div class="prompt-grid">
          <Field label="Prompt (Ctrl+Enter asks)">
            {(given) => (
              <textarea
                {...given}
                class="input prompt-text"
                rows={8}
                value={now.prompt}
                onInput={(event) => change({ prompt: event.currentTarget.value })}
                onKeyDown={key}
              />
            )}
          </Field>
          <div class="prompt-settings">
            <ModelField models={models} />
            <Numbers />
            <Field label="Order">
              {(given) => (
                <select
                  {...given}
                  class="input"
                  value={now.order}
                  onChange={(event) =>
                    change({ order: event.currentTarget.value as typeof now.order })
                  }
                >
                  <option value="together">both at once</option>
                  <option value="turns">A, then B</option>
                </select>
              )}
            </Field>
            <Field label="System message">
              {(given) => (
                <input
                  {...given}
                  class="input"
                  value={now.system}
                  placeholder="that of the model"
                  onInput={(event) => change({ system: event.currentTarget.value })}
                />
              )}
            </Field>
          </div>
        </div>
      </Panel>
    </form>
  );
}
