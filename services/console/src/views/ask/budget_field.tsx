import { useId } from "preact/hooks";
import { Segments } from "../../ui/segments";
import type { SideSettings } from "./settings";

interface Props {
  side: SideSettings;
  error: string | null;
  onChange: (part: Partial<SideSettings>) => void;
}

const UNITS = [
  ["share", "of the prompt"],
  ["tokens", "tokens"],
] as const;

// The budget as a slider and as a number, which move together.
export function BudgetField({ side, error, onChange }: Props) {
  const id = useId();
  const full = side.policy === "full";
  const byShare = side.unit === "share";
  const value = byShare ? Math.round(100 * side.share) : side.tokens;
  const set = (next: number) => {
    if (byShare && next >= 1 && next <= 100) onChange({ share: Math.round(next) / 100 });
    if (!byShare && next >= 1) onChange({ tokens: Math.round(next) });
  };
  const bounds = byShare ? { min: 1, max: 100, step: 1 } : { min: 16, max: 4096, step: 16 };
  const wrong = {
    "aria-invalid": error ? true : undefined,
    "aria-describedby": error ? `${id}-error` : undefined,
  };
  return (
    <div class="field budget">
      <label for={id}>Budget of a layer{byShare ? ", %" : ""}</label>
      <div class="budget-row">
        <input
          type="range"
          aria-label={byShare ? "Budget as a share of the prompt, in percent" : "Budget in tokens"}
          {...bounds}
          {...wrong}
          value={value}
          disabled={full}
          onInput={(event) => set(event.currentTarget.valueAsNumber)}
        />
        <input
          id={id}
          class="input"
          type="number"
          min={1}
          max={byShare ? 100 : 1e7}
          step={1}
          {...wrong}
          value={value}
          disabled={full}
          onInput={(event) => set(event.currentTarget.valueAsNumber)}
        />
        <Segments
          label="Unit of the budget"
          values={UNITS}
          value={side.unit}
          disabled={full}
          onChange={(unit) => onChange({ unit })}
        />
      </div>
      {error && (
        <span id={`${id}-error`} class="error" role="alert">
          {error}
        </span>
      )}
    </div>
  );
}
