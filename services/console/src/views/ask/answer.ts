import { ApiError, post } from "../../api/client";
import { readEvents } from "../../api/stream";
import type { Range } from "../../api/types";
import { type AskSettings, requestText, type SideSettings } from "./settings";

export interface CacheFacts {
  policy: string;
  budget_tokens: number;
  resident_tokens: number;
  peak_resident_tokens: number;
  evicted_tokens: number;
  held_pages: number;
  peak_held_pages: number;
  resident_bytes: number;
  seed: number;
  kept?: [number, number][][];
}

// One answer while it comes, and after.
export interface Answer {
  state: "idle" | "waiting" | "running" | "done" | "stopped" | "failed";
  text: string;
  pieces: number; // of text, about as many as tokens
  began: number; // milliseconds, as performance.now()
  first: number; // 0: no text yet
  last: number;
  finish: string;
  promptTokens: number;
  answerTokens: number;
  cache: CacheFacts | null;
  kept: Range[][] | null; // by layer
  error: ApiError | null;
}

export const IDLE: Answer = {
  state: "idle",
  text: "",
  pieces: 0,
  began: 0,
  first: 0,
  last: 0,
  finish: "",
  promptTokens: 0,
  answerTokens: 0,
  cache: null,
  kept: null,
  error: null,
};

interface Chunk {
  choices?: {
    delta?: { content?: string | null };
    finish_reason?: string | null;
    cache?: CacheFacts;
  }[];
  usage?: { prompt_tokens: number; completion_tokens: number } | null;
  error?: { message: string; param?: string | null };
}

// The answer after one more chunk, which came at the time `now`.
export function addChunk(answer: Answer, chunk: Chunk, now: number): Answer {
  if (chunk.error) {
    const error = new ApiError(500, chunk.error.message, chunk.error.param ?? null);
    return { ...answer, state: "failed", error };
  }
  const next = { ...answer };
  const choice = chunk.choices?.[0];
  if (choice?.delta?.content) {
    next.text += choice.delta.content;
    next.pieces += 1;
    next.first = next.first || now;
    next.last = now;
  }
  if (choice?.finish_reason) next.finish = choice.finish_reason;
  if (choice?.cache) {
    next.cache = choice.cache;
    next.kept = keptOf(choice.cache);
  }
  if (chunk.usage) {
    next.promptTokens = chunk.usage.prompt_tokens;
    next.answerTokens = chunk.usage.completion_tokens;
  }
  return next;
}

function keptOf(cache: CacheFacts): Range[][] | null {
  return cache.kept?.map((layer) => layer.map(([begin, end]) => ({ begin, end }))) ?? null;
}

// Tokens per second after the first one, or null before there are two.
export function speedOf(answer: Answer): number | null {
  const tokens = Math.max(answer.answerTokens, answer.pieces);
  const seconds = (answer.last - answer.first) / 1000;
  return tokens > 1 && seconds > 0 ? (tokens - 1) / seconds : null;
}

// Asks one side, and tells each new state of its answer.
export async function askSide(
  settings: AskSettings,
  side: SideSettings,
  signal: AbortSignal,
  tell: (answer: Answer) => void,
): Promise<void> {
  let answer: Answer = { ...IDLE, state: "running", began: performance.now() };
  tell(answer);
  try {
    const response = await post("/v1/chat/completions", requestText(settings, side), signal);
    for await (const data of readEvents(response)) {
      answer = addChunk(answer, JSON.parse(data), performance.now());
      tell(answer);
      if (answer.state === "failed") return;
    }
    if (!answer.finish) throw new ApiError(0, "The answer broke off before its end.");
    tell({ ...answer, state: "done" });
  } catch (cause) {
    if (signal.aborted) tell({ ...answer, state: "stopped" });
    else tell({ ...answer, state: "failed", error: errorOf(cause) });
  }
}

function errorOf(cause: unknown): ApiError {
  return cause instanceof ApiError
    ? cause
    : new ApiError(0, "The answer broke off before its end.");
}
