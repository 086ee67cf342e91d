import { createStore } from "./store";

export type Theme = "auto" | "light" | "dark";

const NAME = "folio.theme";
const system = matchMedia("(prefers-color-scheme: dark)");

function stored(): Theme {
  try {
    const value = localStorage.getItem(NAME);
    return value === "light" || value === "dark" ? value : "auto";
  } catch {
    return "auto";
  }
}

function apply(theme: Theme): void {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

export const theme = createStore<Theme>(stored());
apply(theme.get());

export function setTheme(next: Theme): void {
  try {
    localStorage.setItem(NAME, next);
  } catch {
    // The choice then lives as long as the page.
  }
  apply(next);
  theme.set(next);
}

export function isDark(): boolean {
  return theme.get() === "dark" || (theme.get() === "auto" && system.matches);
}

export function onThemeChange(listener: () => void): void {
  theme.subscribe(listener);
  system.addEventListener("change", listener);
}
