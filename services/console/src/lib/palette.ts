import { type Pixel, parse } from "./colour";
import { createStore } from "./store";
import { isDark, onThemeChange } from "./theme";

// The colours of styles/tokens.css that canvases need. CSS resolves them, so that there is one definition.
const NAMES = [
  "surface",
  "border",
  "grid",
  "text",
  "muted",
  "accent",
  "free",
  "held",
  "reserved",
  "quarantined",
  "prompt",
  "answer",
  "gone",
  "prompt-rate",
  "decode-rate",
  "evict-rate",
] as const;
type Name = (typeof NAMES)[number];

export interface Palette {
  dark: boolean;
  pixel: Record<Name, Pixel>;
  css: Record<Name, string>;
}

function read(): Palette {
  const probe = document.createElement("i");
  probe.hidden = true;
  document.body.append(probe);
  const palette = { dark: isDark(), pixel: {}, css: {} } as Palette;
  for (const name of NAMES) {
    probe.style.color = `var(--${name})`;
    palette.css[name] = getComputedStyle(probe).color;
    palette.pixel[name] = parse(palette.css[name]);
  }
  probe.remove();
  return palette;
}

export const palette = createStore<Palette>(read());
onThemeChange(() => palette.set(read()));
