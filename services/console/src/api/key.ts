import { createStore } from "../lib/store";

const NAME = "folio.key";

function stored(): string {
  try {
    return sessionStorage.getItem(NAME) ?? "";
  } catch {
    return ""; // storage can be forbidden
  }
}

// The API key of this tab. It is in no link, and it is gone when the tab is.
export const apiKey = createStore(stored());

export function setApiKey(key: string): void {
  try {
    if (key) sessionStorage.setItem(NAME, key);
    else sessionStorage.removeItem(NAME);
  } catch {
    // The key then lives as long as the page.
  }
  apiKey.set(key);
}
