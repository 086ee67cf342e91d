// The inputs of the view Ask, as fields of a link and as a request.

export const POLICIES = [
  "full",
  "query_diff",
  "paged_eviction",
  "streaming_llm",
  "snap_kv",
  "kv_crush",
  "key_diff",
  "inverse_key_norm",
  "value_norm",
  "random",
] as const;

export interface SideSettings {
  policy: string;
  parameters: string; // as folioctl has them behind the colon, "window=32"
  unit: "share" | "tokens";
  share: number; // of the prompt
  tokens: number;
  layers: "per_layer" | "shared";
}

export type SideName = "a" | "b";

export interface AskSettings {
  model: string; // empty: any
  system: string;
  prompt: string;
  maxTokens: number;
  temperature: number;
  seed: number;
  mode: "synchronous" | "pipelined";
  order: "together" | "turns"; // in turns each side has the machine for itself
  a: SideSettings;
  b: SideSettings;
}

const SIDE: SideSettings = {
  policy: "full",
  parameters: "",
  unit: "share",
  share: 0.5,
  tokens: 256,
  layers: "per_layer",
};

const EXAMPLE = `The lighthouse at Orrin Point was built in three summers. In the first the masons cut the stone, in the second they raised the tower, and in the third a glassmaker called Tova Reed brought the lamp over the hills on a sledge. The path was steep, and two of her nine lenses broke on the way. She ground new ones from the bottoms of bottles, and sailors said for years that the light had a green edge.

The first keeper wrote down everything. He noted the weather, the ships, the price of oil, and the number of the locker where he kept his spare key, which was 4718. When he left, his daughter Ilse took the lamp. She planted beans along the wall, kept a one-eyed cat named Brigadier, and rang the bell by hand when the fog came.

In the winter of the long storm a schooner with a cargo of oranges ran onto the reef. Ilse rowed out four times. All eleven sailors lived, and the village ate oranges until spring. The captain gave her his compass, and it hung by the stairs until the tower was closed.

Today the light is electric, and a clock turns it on. The lenses are in the museum of the harbour, and the ones with the green edge are still there. Children who visit are told to look for them, and most of them find both.

What was the number of the locker where the first keeper kept his spare key?`;

export const DEFAULTS: AskSettings = {
  model: "",
  system: "",
  prompt: EXAMPLE,
  maxTokens: 160,
  temperature: 0,
  seed: 1,
  mode: "synchronous",
  order: "together",
  a: SIDE,
  b: { ...SIDE, policy: "query_diff" },
};

function encodeSide(name: SideName, side: SideSettings): Record<string, string> {
  const full = side.policy === "full";
  return {
    [`${name}.policy`]: side.policy,
    [`${name}.with`]: side.parameters,
    // A share has a decimal point, as in a request.
    [`${name}.budget`]: full
      ? ""
      : side.unit === "share"
        ? shareText(side.share)
        : String(side.tokens),
    [`${name}.layers`]: !full && side.layers === "shared" ? "shared" : "",
  };
}

function shareText(share: number): string {
  return Number.isInteger(share) ? share.toFixed(1) : String(share);
}

export function encode(settings: AskSettings): Record<string, string> {
  return {
    ...encodeSide("a", settings.a),
    ...encodeSide("b", settings.b),
    model: settings.model,
    max: String(settings.maxTokens),
    temperature: String(settings.temperature),
    seed: String(settings.seed),
    mode: settings.mode === "pipelined" ? "pipelined" : "",
    order: settings.order === "turns" ? "turns" : "",
    system: settings.system,
    prompt: settings.prompt,
  };
}

function numberIn(text: string | null, low: number, high: number, otherwise: number): number {
  const value = text === null || text.trim() === "" ? Number.NaN : Number(text);
  return Number.isFinite(value) ? Math.min(high, Math.max(low, value)) : otherwise;
}

function decodeSide(name: SideName, query: URLSearchParams): SideSettings {
  const budget = query.get(`${name}.budget`) ?? "";
  const isShare = budget === "" || budget.includes(".");
  return {
    policy: query.get(`${name}.policy`) || DEFAULTS[name].policy,
    parameters: query.get(`${name}.with`) ?? "",
    unit: isShare ? "share" : "tokens",
    share: isShare ? numberIn(budget, 0.01, 1, SIDE.share) : SIDE.share,
    tokens: isShare ? SIDE.tokens : Math.round(numberIn(budget, 1, 1e7, SIDE.tokens)),
    layers: query.get(`${name}.layers`) === "shared" ? "shared" : "per_layer",
  };
}

export function decode(query: URLSearchParams): AskSettings {
  return {
    model: query.get("model") ?? "",
    system: query.get("system") ?? "",
    prompt: query.get("prompt") ?? "",
    maxTokens: Math.round(numberIn(query.get("max"), 1, 1e6, DEFAULTS.maxTokens)),
    temperature: numberIn(query.get("temperature"), 0, 2, 0),
    seed: Math.round(numberIn(query.get("seed"), 0, Number.MAX_SAFE_INTEGER, 1)),
    mode: query.get("mode") === "pipelined" ? "pipelined" : "synchronous",
    order: query.get("order") === "turns" ? "turns" : "together",
    a: decodeSide("a", query),
    b: decodeSide("b", query),
  };
}

export function messagesOf({ system, prompt }: AskSettings): { role: string; content: string }[] {
  const user = { role: "user", content: prompt };
  return system.trim() === "" ? [user] : [{ role: "system", content: system }, user];
}

function cacheText(settings: AskSettings, side: SideSettings): string {
  const parameters = side.parameters.trim();
  const policy = JSON.stringify(parameters ? `${side.policy}:${parameters}` : side.policy);
  if (side.policy === "full") return `{"policy":${policy},"report_kept":true}`;
  // JSON of JavaScript writes 1.0 as 1, which would be one token.
  const budget = side.unit === "share" ? shareText(side.share) : String(side.tokens);
  const rules = JSON.stringify({ layers: side.layers, mode: settings.mode }).slice(1, -1);
  return `{"policy":${policy},"budget":${budget},${rules},"report_kept":true}`;
}

// The body of the request of one side.
export function requestText(settings: AskSettings, side: SideSettings): string {
  const rest = JSON.stringify({
    ...(settings.model ? { model: settings.model } : {}),
    messages: messagesOf(settings),
    max_tokens: settings.maxTokens,
    temperature: settings.temperature,
    seed: settings.seed,
    stream: true,
    stream_options: { include_usage: true },
    user: "console",
  });
  return `{"cache":${cacheText(settings, side)},${rest.slice(1)}`;
}
