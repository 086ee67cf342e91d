import { type ApiError, post } from "../../api/client";
import { createStore, type Store } from "../../lib/store";
import { type Answer, askSide, IDLE } from "./answer";
import { type AskSettings, DEFAULTS, messagesOf, type SideName } from "./settings";

// The prompt as the model reads it.
export interface PromptTokens {
  texts: string[];
  error: ApiError | null;
}

// They outlive the view, so that a look at another one loses no answer.
export const settings = createStore<AskSettings>(DEFAULTS);
export const answers: Record<SideName, Store<Answer>> = {
  a: createStore(IDLE),
  b: createStore(IDLE),
};
export const promptTokens = createStore<PromptTokens>({ texts: [], error: null });
export const running = createStore<AbortController | null>(null);

export function change(part: Partial<AskSettings>): void {
  settings.set({ ...settings.get(), ...part });
}

// Passes on the newest answer once a frame, because chunks may come faster than that. Hidden tabs have no frames.
function onceAFrame(store: Store<Answer>): (answer: Answer) => void {
  let newest: Answer | null = null;
  let waits = false;
  const pass = () => {
    waits = false;
    if (newest) store.set(newest);
    newest = null;
  };
  return (answer) => {
    newest = answer;
    if (answer.state !== "running") {
      pass();
    } else if (!waits) {
      waits = true;
      if (document.hidden) setTimeout(pass, 250);
      else requestAnimationFrame(pass);
    }
  };
}

async function tokenize(of: AskSettings, signal: AbortSignal): Promise<void> {
  const model = of.model ? { model: of.model } : {};
  const body = JSON.stringify({ ...model, messages: messagesOf(of), return_token_strs: true });
  try {
    const response = await post("/tokenize", body, signal);
    const { token_strs } = (await response.json()) as { token_strs: string[] };
    promptTokens.set({ texts: token_strs, error: null });
  } catch (error) {
    if (!signal.aborted) promptTokens.set({ texts: [], error: error as ApiError });
  }
}

// Asks both sides, at once or in turns.
export async function run(): Promise<void> {
  running.get()?.abort();
  const control = new AbortController();
  running.set(control);
  const now = settings.get();
  promptTokens.set({ texts: [], error: null });
  const side = (name: SideName) =>
    askSide(now, now[name], control.signal, onceAFrame(answers[name]));
  const tokens = tokenize(now, control.signal);
  if (now.order === "turns") {
    answers.b.set({ ...IDLE, state: "waiting" });
    await side("a");
    await side("b");
  } else {
    await Promise.all([side("a"), side("b")]);
  }
  await tokens;
  if (running.get() === control) running.set(null);
}

export function stop(): void {
  running.get()?.abort();
}
