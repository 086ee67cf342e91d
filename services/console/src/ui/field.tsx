import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";

interface Given {
  id: string;
  "aria-invalid": boolean | undefined;
  "aria-describedby": string | undefined;
}

interface Props {
  label: string;
  error?: string | null;
  class?: string;
  children: (given: Given) => ComponentChildren; // the input, with what connects it to its label and error
}

// An input with its label, and its error below it.
export function Field({ label, error, class: name = "", children }: Props) {
  const id = useId();
  return (
    <div class={`field ${name}`}>
      <label for={id}>{label}</label>
      {children({
        id,
        "aria-invalid": error ? true : undefined,
        "aria-describedby": error ? `${id}-error` : undefined,
      })}
      {error && (
        <span id={`${id}-error`} class="error" role="alert">
          {error}
        </span>
      )}
    </div>
  );
}

interface NumberProps {
  label: string;
  value: number;
  least: number;
  most: number;
  step: number;
  error?: string | null;
  disabled?: boolean;
  onChange: (value: number) => void;
}

// A number, which is taken over while it is within its bounds.
export function NumberField({
  label,
  value,
  least,
  most,
  step,
  error,
  disabled,
  onChange,
}: NumberProps) {
  return (
    <Field label={label} error={error}>
      {(given) => (
        <input
          {...given}
          class="input"
          type="number"
          min={least}
          max={most}
          step={step}
          disabled={disabled}
          value={value}
          onInput={({ currentTarget }) => {
            const next = currentTarget.valueAsNumber;
            if (next >= least && next <= most) onChange(next);
          }}
          onBlur={({ currentTarget }) => {
            currentTarget.value = String(value);
          }}
        />
      )}
    </Field>
  );
}
