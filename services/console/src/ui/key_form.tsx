import { useId, useState } from "preact/hooks";
import { apiKey, setApiKey } from "../api/key";

interface Props {
  status: number; // 401 or 403
  message: string;
  operator: boolean; // an operator's key is needed
}

// Asks for the API key, which stays in this tab.
export function KeyForm({ status, message, operator }: Props) {
  const [key, setKey] = useState("");
  const id = useId();
  const submit = (event: Event) => {
    event.preventDefault();
    setApiKey(key.trim());
  };
  const refused = status === 403 || apiKey.get() !== "";
  return (
    <form class="key-form" onSubmit={submit}>
      <h2>{operator ? "This gateway wants an operator's key" : "This gateway wants a key"}</h2>
      {refused && (
        <p class="notice bad" role="alert">
          {message}
        </p>
      )}
      <div class="field">
        <label for={id}>API key</label>
        <input
          id={id}
          class="input mono"
          type="password"
          autocomplete="off"
          spellcheck={false}
          value={key}
          aria-describedby={`${id}-why`}
          onInput={(event) => setKey(event.currentTarget.value)}
        />
      </div>
      <p id={`${id}-why`} class="muted small">
        The key stays in this tab, and is forgotten when you close it. It is in no link.
      </p>
      <div>
        <button type="submit" class="button primary" disabled={key.trim() === ""}>
          Use this key
        </button>
      </div>
    </form>
  );
}
