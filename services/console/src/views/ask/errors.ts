import type { ApiError } from "../../api/client";
import type { Answer } from "./answer";

// Fields that have a place of their own for an error. All other errors stand in the answer.
const PLACED = [
  "cache.policy",
  "cache.budget",
  "cache.layers",
  "max_tokens",
  "temperature",
  "seed",
] as const;
type Place = (typeof PLACED)[number];

// The field that an error concerns. The gateway names it, and the worker's own refusals only say its name.
export function placeOf({ param, message }: ApiError): Place | null {
  if (param) return PLACED.find((one) => one === param) ?? null;
  return /\bbudget(_tokens|_share)?\b/.test(message) ? "cache.budget" : null;
}

// The error of the answer if it concerns the field.
export function errorAt({ error }: Answer, place: Place): string | null {
  return error && placeOf(error) === place ? error.message : null;
}

// The error of the answer if no field has a place for it.
export function errorElsewhere({ error }: Answer): string | null {
  return error && placeOf(error) === null ? error.message : null;
}
