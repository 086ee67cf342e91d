import { useEffect, useState } from "preact/hooks";
import { apiKey, setApiKey } from "../api/key";
import { link, manager } from "../data/monitor";
import { duration } from "../lib/format";
import { useStore } from "../lib/store";
import { setTheme, type Theme, theme } from "../lib/theme";
import { hrefOf } from "../router";

const VIEWS = [
  ["overview", "Overview"],
  ["pages", "Pages"],
  ["sequences", "Sequences"],
  ["ask", "Ask"],
] as const;

const NEXT: Record<Theme, Theme> = { auto: "light", light: "dark", dark: "auto" };

function Mark() {
  return (
    <svg viewBox="0 0 16 16" aria-hidden="true">
      <path d="M1 1h6v6H1zM9 1h6v6H9zM1 9h6v6H1z" />
    </svg>
  );
}

// A clock for the time since the manager was lost.
function useSeconds(active: boolean): void {
  const [, tick] = useState(0);
  useEffect(() => {
    if (!active) return;
    const timer = setInterval(() => tick((one) => one + 1), 1000);
    return () => clearInterval(timer);
  }, [active]);
}

function LinkState() {
  const { state, since } = useStore(link);
  const up = useStore(manager);
  useSeconds(state === "lost");
  const text = {
    starting: "connecting",
    live: up ? `manager up ${duration(up.uptime_ms)}` : "live",
    lost: `no manager for ${duration(Date.now() - since)}`,
    key: "key wanted",
  }[state];
  return (
    <span class="link-state small">
      <span class={`dot ${state}`} aria-hidden="true" />
      <span>{text}</span>
      {up?.draining && <span class="tag warn">drains</span>}
      {/* Only a change of the state is said aloud. */}
      <span class="hidden" role="status">
        {
          {
            starting: "",
            live: "The manager answers.",
            lost: "The manager cannot be reached.",
            key: "A key is wanted.",
          }[state]
        }
      </span>
    </span>
  );
}

export function Header({ view }: { view: string }) {
  const scheme = useStore(theme);
  const key = useStore(apiKey);
  const known = VIEWS.some(([name]) => name === view) ? view : "overview";
  return (
    <header class="header">
      <a class="brand" href={hrefOf("overview")}>
        <Mark />
        Folio
      </a>
      <nav class="nav" aria-label="Views">
        {VIEWS.map(([name, text]) => (
          <a key={name} href={hrefOf(name)} aria-current={known === name ? "page" : undefined}>
            {text}
          </a>
        ))}
      </nav>
      <div class="header-end">
        <LinkState />
        {key && (
          <button type="button" class="button plain" onClick={() => setApiKey("")}>
            Forget key
          </button>
        )}
        <button
          type="button"
          class="button plain theme"
          aria-label={`Colour scheme: ${scheme}. Change to ${NEXT[scheme]}`}
          onClick={() => setTheme(NEXT[scheme])}
        >
          {{ auto: "◐", light: "☀", dark: "☾" }[scheme]}
          <span class="hide-narrow">{{ auto: "Auto", light: "Light", dark: "Dark" }[scheme]}</span>
        </button>
      </div>
    </header>
  );
}
