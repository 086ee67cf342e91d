import { useId } from "preact/hooks";

interface Props<Value extends string> {
  label: string;
  values: readonly (readonly [Value, string])[];
  value: Value;
  disabled?: boolean;
  onChange: (value: Value) => void;
}

// A few choices beside each other, as radio buttons, so that arrows move between them.
export function Segments<Value extends string>(props: Props<Value>) {
  const name = useId();
  return (
    <fieldset class="segments" disabled={props.disabled}>
      <legend class="hidden">{props.label}</legend>
      {props.values.map(([value, text]) => (
        <label key={value}>
          <input
            type="radio"
            name={name}
            value={value}
            checked={props.value === value}
            onChange={() => props.onChange(value)}
          />
          {text}
        </label>
      ))}
    </fieldset>
  );
}
